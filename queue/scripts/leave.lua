-- LEAVE: removes the name and the statistics of a daemon that has ended all its leases.
--
-- KEYS  1 inst  2 alone:owner  3 stats:INST  4 leases:INST  5 watcher  6 wake
-- ARGV  1 INST  2 lease, ms  3 pass: this daemon has taken a message of :wake, or none
-- Reply 1
--
-- Crash windows: without this call, the name expires and REAP removes it.
local inst, owner, watcher, wake = KEYS[1], KEYS[2], KEYS[5], KEYS[6]
if redis.call('TYPE', inst).ok == 'zset' then redis.call('ZREM', inst, ARGV[1]) end
if redis.call('TYPE', owner).ok == 'string' and redis.call('GET', owner) == ARGV[1] then
    redis.call('DEL', owner)
    redis.pcall('DEL', owner .. ':fetch')
end
redis.call('DEL', KEYS[3], KEYS[4])
-- include parts/watch.lua
-- Passes the watch on. The last daemon deletes the keys.
if redis.call('EXISTS', inst) == 0 then
    redis.call('DEL', watcher, wake)
else
    local watching = watching_now()
    local free = not watching or watching == '-'
    if watching == ARGV[1] or (free and ARGV[3] == 'pass') then pass_watch(ARGV[2]) end
end
return 1
