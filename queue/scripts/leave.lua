-- LEAVE: a daemon that ended all its leases takes its name away, and what it said of itself.
--
-- KEYS  1 inst  2 alone:owner  3 stats:INST  4 leases:INST
-- ARGV  1 INST
-- Reply 1
--
-- Crash windows: without it the name expires, and REAP removes it.
local inst, owner = KEYS[1], KEYS[2]
if redis.call('TYPE', inst).ok == 'zset' then redis.call('ZREM', inst, ARGV[1]) end
if redis.call('TYPE', owner).ok == 'string' and redis.call('GET', owner) == ARGV[1] then
    redis.call('DEL', owner)
end
redis.call('DEL', KEYS[3], KEYS[4])
return 1
