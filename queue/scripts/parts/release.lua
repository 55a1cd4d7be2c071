-- The end of a unique job: its id is free, and those that wait for it are looked at again.
local function release(number, unique, waits, delayed)
    if redis.pcall('GET', unique) == number then redis.call('DEL', unique) end
    wake(waits, delayed)
end
