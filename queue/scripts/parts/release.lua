-- Called at the end of a unique job. If it was the first with its id, frees the id and wakes the
-- jobs that wait for it. The end of a later unique job wakes none: if each of a thousand cancelled
-- jobs woke the rest, the cost would be quadratic.
-- The set's name contains the time, because job numbers may repeat after Redis lost data.
local function release(number, unique, waits, list)
    local first = redis.pcall('GET', unique)
    if is_mistyped(first) or first ~= number then return end
    wake(waits, list, 'RPUSH', number .. ':' .. table.concat(redis.call('TIME'), '.'))
    redis.call('DEL', unique)
end
