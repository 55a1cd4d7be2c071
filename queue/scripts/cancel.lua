-- CANCEL: cancels all jobs with an id that were pushed so far. Called by clients, not by daemons.
--
-- KEYS  1 jobs  2 cancel  3 woken  4 waits:ID  5 result:ID; in a Cluster also never
-- ARGV  1 ID
-- Reply {the kept result of a job with that id, or nil}
--
-- The script reads no job. It adds the id to NS:cancel and pushes a fence to NS:jobs, after all
-- jobs that wait there. A job with the id is cancelled by START if it is taken before the fence, or
-- if it has a job number already. Jobs that wait for a time or for another job are woken for this.
-- Each list with a priority P that has jobs gets a fence, too. Members of NS:cancel: ID for jobs of
-- NS:jobs; ID, a line feed and P for jobs of NS:jobs:P; ID and a line feed for jobs of all
-- priorities that have numbers already. An id has no control characters.
-- Also reads NS:seq and NS:protocol, and writes KEYS 1 .. ":0" to ":9".
-- Crash windows: one atomic step. If the reply is lost, a second call does no harm.
local jobs, cancel, woken, waits = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id = ARGV[1]

local ID_BYTES_MAX = 128

-- include parts/wrong_type.lua
-- include parts/protocol.lua
local unsuited = protocol_refusal(jobs:sub(1, -6), false)
if unsuited then return unsuited end
local wrong = wrong_type(jobs, 'list') or wrong_type(cancel, 'zset') or wrong_type(woken, 'list')
if wrong then return wrong end
if #id < 1 or #id > ID_BYTES_MAX then
    return redis.error_reply('ERR the id has ' .. #id .. ' bytes, must have 1 to ' .. ID_BYTES_MAX)
end

-- include parts/now.lua
-- include parts/horizon.lua
-- include parts/forget_cancels.lua
-- include parts/lists.lua
-- include parts/wake.lua
-- Over maxmemory, Redis permits writes after a first write that only frees memory: this
-- deletes the oldest cancels whose fences have been taken. A ZREM that removes nothing counts, too.
forget_cancels(cancel, 1)
redis.call('ZREM', cancel, '')

local last = tonumber(redis.call('ZSCORE', cancel, id) or 0)
local serial = string.format('%.0f', math.max(FENCED + now, last + 1))
local numbered = redis.pcall('GET', jobs:sub(1, -5) .. 'seq')
numbered = not is_mistyped(numbered) and tonumber(numbered or 0) or 0
-- The fences come first: a fence without its cancel does nothing.
redis.call('LPUSH', jobs, '@cancel:' .. serial .. ':' .. id)
local limits = {serial, id, numbered, id .. '\n'}
local lists = priority_lists()
if existing(unpack(lists)) > 0 then
    for _, key in ipairs(lists) do
        if type(redis.pcall('LPUSHX', key, '@cancel:' .. serial .. ':' .. id)) ~= 'table' and
            redis.call('EXISTS', key) == 1 then
            limits[#limits + 1], limits[#limits + 2] = serial, id .. '\n' .. key:sub(-1)
        end
    end
end
redis.call('ZADD', cancel, unpack(limits))
wake(waits, woken, 'LPUSH', 'cancel:' .. serial .. ':' .. id)

local kept = redis.pcall('GET', KEYS[5])
return {type(kept) == 'string' and kept or false}
