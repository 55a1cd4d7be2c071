-- RESUME: gives back, with their attempt, leases that their daemon does not know. The reply to
-- their FETCH was lost with the connection.
--
-- KEYS  1 lease  2 jobs  3 alone
-- ARGV  1 namespace  2 INST  3 attempts  4 fetch counter: leases of this FETCH and of later ones
--       are skipped, because the reply may still arrive; then "number:fetch counter" of each known
--       lease
-- Reply {leases given back, 1 if there are more to give back}
--
-- Also writes KEYS 2 .. ":0" to ":9", to which jobs with a priority return.
-- Reads only the daemon's own set of leases, and skips the job numbers that the daemon knows.
-- Crash windows: one atomic step; a second call has the same effect.
local lease, jobs, alone = KEYS[1], KEYS[2], KEYS[3]
local ns, me, attempts, fetch_end = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

-- include parts/wrong_type.lua
local wrong = wrong_type(lease, 'zset') or wrong_type(jobs, 'list') or wrong_type(alone, 'list')
if wrong then return wrong end

-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
redis.call('ZREM', lease, '')

local known = {}
for i = 5, #ARGV do known[ARGV[i]:match('^%d+')] = true end

-- include parts/own.lua
-- include parts/push_back.lua
-- include parts/requeue.lua
local MOST = 64
local mine, unknown = own(me .. ':'), {}
local numbers = redis.pcall('SMEMBERS', mine)
for _, number in ipairs(is_mistyped(numbers) and {} or numbers) do
    if not known[number] then unknown[#unknown + 1] = number end
end

local given, more = 0, 0
for _, number in ipairs(unknown) do
    local key = ns .. ':job:' .. number
    local job = redis.pcall('HMGET', key, 'owner', 'token', 'state', 'attempt', 'list',
                            'crashed')
    local fetch = not is_mistyped(job) and job[1] == me and job[2] and job[2]:match(':(%d+)$')
    if not fetch then
        redis.call('SREM', mine, number) -- the daemon has no lease on this job any more
    elseif tonumber(fetch) < fetch_end then
        if given == MOST then
            more = 1
            break
        end
        given = given + 1
        if job[3] == 'burying' then -- charged no attempt: leave it to the next REAP
            redis.call('ZADD', lease, 0, number)
            redis.call('HDEL', key, 'owner', 'token')
        else
            requeue(key, number, math.max(0, (tonumber(job[4]) or 1) - 1), job[5], job[6])
        end
        redis.call('SREM', mine, number)
    end
end
return {given, more}
