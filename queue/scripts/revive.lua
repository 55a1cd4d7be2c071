-- REVIVE: removes a dead job and its error, and pushes the job again if it shall be retried. Called
-- by clients, not by daemons.
--
-- KEYS  1 dead  2 jobs
-- ARGV  1 the job's text  2 retry the job (1, 0)
-- Reply 1, or 0 if the list does not contain the job
--
-- Also writes KEYS 1 .. ":errors".
-- Crash windows: one atomic step. If the reply is lost, a second call does nothing, unless the job
-- has died again meanwhile or another job has the same text.
local dead, jobs, errors, text = KEYS[1], KEYS[2], KEYS[1] .. ':errors', ARGV[1]

-- include parts/wrong_type.lua
local wrong = wrong_type(dead, 'list') or wrong_type(jobs, 'list') or wrong_type(errors, 'list')
if wrong then return wrong end
-- include parts/dead_error.lua
local place = redis.call('LPOS', dead, text)
if not place then return 0 end
local record = error_of(errors_around(errors, place, place), text, place)
redis.call('LREM', dead, 1, text)
if record then redis.call('LREM', errors, 1, record) end
if ARGV[2] == '1' then redis.call('LPUSH', jobs, text) end
return 1
