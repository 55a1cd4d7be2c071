-- LOOK: tells an idle daemon if there is anything to fetch. Writes nothing.
--
-- KEYS  1 jobs  2 delayed  3 alone  4 alone:owner  5 watcher  6 paused  7 woken
-- ARGV  none
-- Reply {1 if a FETCH is worthwhile, jobs in :jobs and in :jobs:0 to :jobs:9, ms until the next
--       delayed job (-1: none), 1 if paused, the jobs in :jobs:0 to :jobs:9 (as in FETCH)}
--
-- A FETCH is also worthwhile if there is no watcher, to become it, and if a key has the wrong type,
-- to get the error.
-- Crash windows: none.
local jobs, delayed, alone, owner, watcher, paused, woken =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]

-- include parts/lists.lua
local left = redis.pcall('LLEN', jobs)
if type(left) == 'table' then return {1, 0, -1, 0, {}} end
local lists, lengths = priority_lists(), {}
if existing(unpack(lists)) > 0 then
    for place, key in ipairs(lists) do
        local length = redis.pcall('LLEN', key)
        if type(length) == 'table' then length = -1 end
        left, lengths[11 - place] = left + math.max(0, length), length
    end
end
if redis.call('EXISTS', paused) == 1 then return {0, left, -1, 1, lengths} end
local lone, first = redis.pcall('LLEN', alone), redis.pcall('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if type(lone) == 'table' or first.err then return {1, left, -1, 0, lengths} end

-- include parts/now.lua
local due = first[2] and math.max(0, first[2] - now) or -1
local worth = left > 0 or due == 0 or (lone > 0 and redis.call('EXISTS', owner) == 0)
    or redis.call('EXISTS', watcher) == 0 or redis.call('EXISTS', woken) == 1
return {worth and 1 or 0, left, due, 0, lengths}
