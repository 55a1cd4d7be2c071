-- REVIVE: removes a dead job and its error, and pushes the job again if it shall be retried. Called
-- by clients, not by daemons.
--
-- KEYS  1 dead  2 jobs
-- ARGV  1 the job's text  2 retry the job (1, 0; oldest: retry the oldest job, and ignore ARGV 1)
-- Reply 1, or 0 if the list does not contain the job
--
-- A retried job goes to the list that its error record names, or to :jobs.
-- Also writes KEYS 1 .. ":errors" and KEYS 2 .. ":0" to ":9".
-- Crash windows: one atomic step. If the reply is lost, a second call does nothing, unless the job
-- has died again meanwhile or another job has the same text.
local dead, jobs, errors, text = KEYS[1], KEYS[2], KEYS[1] .. ':errors', ARGV[1]

-- include parts/wrong_type.lua
-- include parts/protocol.lua
local unsuited = protocol_refusal(jobs:sub(1, -6), false)
if unsuited then return unsuited end
local wrong = wrong_type(dead, 'list') or wrong_type(jobs, 'list') or wrong_type(errors, 'list')
if wrong then return wrong end
-- include parts/dead_error.lua
-- include parts/push_back.lua
local oldest = ARGV[2] == 'oldest'
if oldest then text = redis.call('LINDEX', dead, -1) end
local place = oldest and redis.call('LLEN', dead) - 1 or redis.call('LPOS', dead, text)
if not place or place < 0 then return 0 end
local record = error_of(errors_around(errors, place, place), text, place)
-- Removes nothing. If Redis denies LREM, the job must not be pushed.
redis.call('LREM', jobs:sub(1, -5) .. 'never', 0, '')
local list = record and record:match('^{"of":"[^"]*","time":[%d.]+,"list":(%d)')
if ARGV[2] ~= '0' then push_back('LPUSH', list, text) end
-- From the end where the job is: others may have the same text.
local count = oldest and -1 or 1
redis.call('LREM', dead, count, text)
if record then redis.call('LREM', errors, count, record) end
return 1
