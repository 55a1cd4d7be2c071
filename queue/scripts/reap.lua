-- REAP: takes back expired leases, and the leases of daemons whose process is gone.
--
-- KEYS  1 lease  2 inst  3 jobs  4 alone  5 alone:owner  6 watcher
-- ARGV  1 namespace  2 INST of the reaper  3 its fetch counter  4 lease, ms  5 attempts
--       6 largest text of a job to send, bytes  7 most leases to take  8 time of the reaper's first
--       scan: leases that had ended by then are taken (-1: none); then each INST that is known to
--       be gone
-- Reply {jobs put back, 1 if there are more leases to take, the time now, leases that ended since
--       the first scan, then for each job without an attempt left number, attempt, text (if it is
--       longer than ARGV 6: {its length, its first bytes})}
--
-- Also writes KEYS 3 .. ":0" to ":9", to which jobs with a priority return.
-- A lease that had ended by the first scan, and still has such an end, was not renewed in between:
-- its daemon is gone. If Redis's clock steps forward, all leases seem to have ended, but live
-- daemons renew theirs before the second scan. If the clock stepped back after the first scan, that
-- scan is ignored.
-- A job without an attempt left is leased to the reaper (state `burying`). The reaper writes the
-- error result and ends the lease by NACK. So only the daemon's JSON parser reads id, meta and
-- reply_to.
-- Crash windows: one atomic step. If a reaper dies before its NACK, its lease expires and the next
-- reaper takes it. If the reply was lost, RESUME lets the lease expire at once.
local lease, inst, jobs, alone, owner, watcher =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ns, me, token = ARGV[1], ARGV[2], ARGV[2] .. ':' .. ARGV[3]
local lease_ms, attempts, bytes_max, limit =
    tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

-- include parts/wrong_type.lua
-- include parts/protocol.lua
local unsuited = protocol_refusal(ns, true)
if unsuited then return unsuited end
local wrong = wrong_type(lease, 'zset') or wrong_type(inst, 'zset') or wrong_type(jobs, 'list')
    or wrong_type(alone, 'list') or wrong_type(owner, 'string')
if wrong then return wrong end

-- include parts/alone.lua
-- include parts/now.lua
-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
redis.call('ZREM', lease, '')
local looked = tonumber(ARGV[8])
if looked > now then looked = -1 end
-- A name stays for 10 lease times after its end. A daemon that starts on the same host can then see
-- that the process is gone.
redis.call('ZREMRANGEBYSCORE', inst, '-inf', string.format('%.0f', looked - 10 * lease_ms))

-- include parts/own.lua
-- include parts/own_add.lua
-- include parts/text.lua
-- include parts/push_back.lua
-- include parts/requeue.lua
local over = redis.call('ZRANGEBYSCORE', lease, '-inf', string.format('%.0f', looked),
                        'LIMIT', 0, limit + 1)
local reply = {0, 0, now, redis.call('ZCOUNT', lease, string.format('(%.0f', looked),
                                     string.format('%.0f', now))}
for i = 9, #ARGV do
    local theirs = own(ARGV[i] .. ':')
    if wrong_type(theirs, 'set') then redis.call('DEL', theirs) end
    local numbers = redis.call('SRANDMEMBER', theirs, math.max(0, limit + 1 - #over))
    for _, number in ipairs(numbers) do
        local holder = redis.pcall('HGET', ns .. ':job:' .. number, 'owner')
        if not is_mistyped(holder) and holder == ARGV[i] then
            over[#over + 1] = number
        else
            redis.call('SREM', theirs, number)
        end
    end
end

local seen, buried = {}, {}
local function bury(key, number, attempt)
    redis.call('ZADD', lease, string.format('%.0f', now + lease_ms), number)
    redis.call('HSET', key, 'state', 'burying', 'token', token, 'owner', me)
    buried[#buried + 1] = number
    reply[#reply + 1] = number
    reply[#reply + 1] = attempt
    reply[#reply + 1] = text_of(key, nil, bytes_max)
end

local function put_back(key, number, attempt, list)
    redis.call('HSET', key, 'crashed', 1)
    requeue(key, number, attempt, list, true)
    reply[1] = reply[1] + 1
end

for i = 1, math.min(#over, limit) do
    local number = over[i]
    local key = ns .. ':job:' .. number
    local job = redis.pcall('HMGET', key, 'attempt', 'owner', 'list')
    if is_mistyped(job) or redis.call('HEXISTS', key, 'raw') == 0 then
        redis.call('ZREM', lease, number)
    elseif not seen[number] then
        seen[number] = true
        local attempt = tonumber(job[1]) or 1
        if attempt >= attempts then
            bury(key, number, attempt)
        else
            put_back(key, number, attempt, job[3])
        end
    end
    if job[2] then redis.pcall('SREM', own(job[2] .. ':'), number) end
end
if #buried > 0 then own_add(token, buried) end
if #over > limit then reply[2] = 1 end

-- The name of a daemon that is gone stays in :inst until all its leases are taken.
for i = 9, #ARGV do
    local name = ARGV[i]
    if redis.call('GET', owner) == name then end_right(owner) end
    if redis.pcall('GET', watcher) == name then redis.call('DEL', watcher) end
    if redis.call('EXISTS', own(name .. ':')) == 1 then
        reply[2] = 1
    else
        redis.call('ZREM', inst, name)
        redis.call('DEL', ns .. ':stats:' .. name)
    end
end
return reply
