-- REVIVE: takes one dead job out of the list, and puts it behind all that wait where it is to be
-- tried again. Of those who push jobs: no daemon calls it.
--
-- KEYS  1 dead  2 jobs
-- ARGV  1 the job's text  2 try it again (1, 0)
-- Reply 1, or 0 where the list does not hold it (any more)
--
-- Crash windows: one atomic step. If the reply is lost, doing it again takes nothing, unless the
-- job died once more meanwhile, or another one has the same text.
-- include parts/wrong_type.lua
local wrong = wrong_type(KEYS[1], 'list') or wrong_type(KEYS[2], 'list')
if wrong then return wrong end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
if ARGV[2] == '1' then redis.call('LPUSH', KEYS[2], ARGV[1]) end
return 1
