-- Wakes the jobs that wait under an id. There may be a million, so their set is only renamed and
-- added to NS:woken; each FETCH then moves some of them (parts/woken.lua). Jobs that begin to wait
-- after this are in a new set.
-- push: LPUSH to move this set before the sets already in NS:woken, RPUSH to move it after them.
local function wake(waits, list, push, name)
    if redis.call('TYPE', waits).ok ~= 'set' then return end
    redis.call(push, list, name)
    redis.call('RENAME', waits, list .. ':' .. name)
end
