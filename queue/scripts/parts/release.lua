-- The end of a unique job: if it was the first, its id is free, and those that wait for it are looked
-- at again. For others nobody waits: of a thousand that are cancelled, each would wake all the rest.
-- A number may come twice after Redis lost data; with the time the set's name does not.
local function release(number, unique, waits, list)
    if redis.pcall('GET', unique) ~= number then return end
    redis.call('DEL', unique)
    wake(waits, list, 'RPUSH', number .. ':' .. table.concat(redis.call('TIME'), '.'))
end
