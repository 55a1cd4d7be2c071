-- RENEW: extends the leases of a daemon, and its name in NS:inst.
--
-- KEYS  1 lease  2 inst  3 alone:owner  4 cancel  5 watcher  6 wake, then job:N of each lease
-- ARGV  1 INST  2 lease, ms  3 the right to run alone: keep, or the counter of the daemon's last
--       FETCH, to end the right unless a later FETCH took it  4 the watch over :jobs: keep, pass (to
--       another daemon) or none; then for each lease number, fetch counter
-- Reply {1 if this daemon has the right to run alone, the highest job number that a cancel can
--       apply to (-1: none), 1 if this daemon is the watcher of :jobs (2: and the only daemon, 0:
--       it is not, -1: ARGV 4 was none), then "number:fetch counter" of each lost lease}
--
-- Crash windows: one atomic step; a second call has the same effect, also if Redis runs it late.
local lease, inst, owner, watcher, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6]
local me, lease_ms = ARGV[1], tonumber(ARGV[2])

-- include parts/wrong_type.lua
-- include parts/protocol.lua
local unsuited = protocol_refusal(inst:sub(1, -6), true)
if unsuited then return unsuited end
local wrong = wrong_type(lease, 'zset') or wrong_type(inst, 'zset') or wrong_type(owner, 'string')
if wrong then return wrong end
-- include parts/horizon.lua
local over, refusal = horizon(KEYS[4])
if refusal then return refusal end

-- include parts/now.lua
local expiry = string.format('%.0f', now + lease_ms)
-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
redis.call('ZREM', lease, '')
redis.call('ZADD', inst, expiry, me)

-- include parts/alone.lua
local held = redis.call('GET', owner) == me
if held and ARGV[3] == 'keep' then
    redis.call('PEXPIRE', owner, lease_ms)
    redis.pcall('PEXPIRE', owner .. ':fetch', lease_ms)
elseif held then
    local last = redis.pcall('GET', owner .. ':fetch')
    held = type(last) == 'string' and tonumber(last) > tonumber(ARGV[3])
    if not held then end_right(owner) end
end

-- include parts/watch.lua
local watches = -1
if ARGV[4] ~= 'none' then
    local watching = watching_now()
    watches = 0
    if watching and watching ~= '-' and watching ~= me then
        watches = 0 -- another daemon watches
    elseif ARGV[4] == 'pass' then
        pass_watch(lease_ms)
    else
        redis.call('SET', watcher, me, 'PX', lease_ms)
        watches = redis.call('ZCOUNT', inst, string.format('%.0f', now), '+inf') > 1 and 1 or 2
    end
end

-- include parts/own.lua
-- include parts/own_add.lua
local reply, mine = {held and 1 or 0, over, watches}, {}
for i = 5, #ARGV, 2 do
    local number, token = ARGV[i], me .. ':' .. ARGV[i + 1]
    local found = redis.pcall('HGET', KEYS[7 + (i - 5) / 2], 'token')
    if found == token then
        redis.call('ZADD', lease, expiry, number)
        mine[#mine + 1] = number
    else
        is_mistyped(found)
        reply[#reply + 1] = number .. ':' .. ARGV[i + 1]
    end
end
if #mine > 0 then
    own_add(me .. ':', mine)
    -- REAP keeps the daemon's name for the same time.
    redis.call('PEXPIRE', own(me .. ':'), 10 * lease_ms)
end
return reply
