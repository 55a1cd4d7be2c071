-- The end of a unique job: if it was the first, its id is free, and those that wait for it are looked
-- at again. For others nobody waits: of a thousand that are cancelled, each would wake all the rest.
local function release(number, unique, waits, delayed)
    if redis.pcall('GET', unique) ~= number then return end
    redis.call('DEL', unique)
    wake(waits, delayed)
end
