-- Wakes the jobs that wait under an id. There may be a million, so their set is only renamed and
-- noted in NS:woken, whatever its size; FETCH moves some of them per call (parts/woken.lua). Jobs
-- that begin to wait after this are in a new set.
-- push: LPUSH for a set that is moved before those that are noted already, RPUSH for after them.
local function wake(waits, list, push, name)
    if redis.call('TYPE', waits).ok ~= 'set' then return end
    redis.call('RENAME', waits, list .. ':' .. name)
    redis.call(push, list, name)
end
