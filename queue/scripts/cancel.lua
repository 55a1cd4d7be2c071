-- CANCEL: asks for the end of every job with an id that was pushed so far. No daemon calls it;
-- whoever pushes jobs does.
--
-- KEYS  1 jobs  2 cancel  3 woken  4 waits:ID  5 result:ID, and in a Cluster never
-- ARGV  1 ID
-- Reply {the kept result of a job with that id, or nil}
--
-- Nobody has looked at the jobs that wait, and none is looked at here: the id is noted in
-- NS:cancel, and a fence put behind the last job of the list. Every job with the id that comes
-- before the fence, and every one that has its number already, ends as `cancelled` when START is
-- asked about it. Those that wait for a time, or for another job, are woken for that.
-- Crash windows: one atomic step. If the reply is lost: once more does no harm.
local jobs, cancel, woken, waits = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id = ARGV[1]

local ID_BYTES_MAX, KEPT = 128, 10000

-- include parts/wrong_type.lua
local wrong = wrong_type(jobs, 'list') or wrong_type(cancel, 'zset') or wrong_type(woken, 'list')
if wrong then return wrong end
if #id < 1 or #id > ID_BYTES_MAX then
    return redis.error_reply('ERR the id has ' .. #id .. ' bytes, must have 1 to ' .. ID_BYTES_MAX)
end

-- include parts/now.lua
-- include parts/horizon.lua
-- include parts/wake.lua
-- Over maxmemory Redis permits any write to a script that began with one which only frees. The
-- oldest cancels whose fences have been passed make room.
local passed = redis.call('ZCOUNT', cancel, '-inf', '(' .. FENCED)
if passed >= KEPT then redis.call('ZREMRANGEBYRANK', cancel, 0, passed - KEPT) end
redis.call('ZREM', cancel, '')

local last = tonumber(redis.call('ZSCORE', cancel, id) or 0)
local serial = string.format('%.0f', math.max(FENCED + now, last + 1))
redis.call('ZADD', cancel, serial, id)
redis.call('LPUSH', jobs, '@cancel:' .. serial .. ':' .. id)
wake(waits, woken, 'LPUSH', 'cancel:' .. serial .. ':' .. id)

local kept = redis.pcall('GET', KEYS[5])
return {type(kept) == 'string' and kept or false}
