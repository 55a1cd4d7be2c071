-- REVIVE: takes one dead job out of the list, with its error, and puts it behind all that wait where
-- it is to be tried again. Of those who push jobs: no daemon calls it.
--
-- KEYS  1 dead  2 jobs
-- ARGV  1 the job's text  2 try it again (1, 0)
-- Reply 1, or 0 where the list does not hold it (any more)
--
-- Writes KEYS 1 .. ":errors", too.
-- Crash windows: one atomic step. If the reply is lost, doing it again takes nothing, unless the
-- job died once more meanwhile, or another one has the same text.
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
