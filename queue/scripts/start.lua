-- START: decides for a batch of leased jobs if they may start. Called for jobs with `not_before`,
-- `expires` or `unique`, and for jobs that a cancel can apply to, also while they run.
--
-- KEYS  1 lease  2 delayed  3 cancel, then for each lease job:N and, if it has an id, waits:ID,
--       unique:ID and result:ID
-- ARGV  1 namespace  2 longest wait for another job with the same id, ms; then for each lease
--       number, token, id ("": none), unique (1, 0), not_before, expires (Unix ms; "+N": N ms after
--       the job's first START; -1: none)
-- Reply two values for each lease: 1 start, 2 wait (the lease has ended, its attempt is given
--       back), 3 expired, 4 answered by a kept result, 5 cancelled, 0 stale (another daemon has the
--       job), -1 stale (the job is gone); and the kept result, or "". After 3: how often the disk
--       had no room for the job (NACK later), or ""
--
-- unique:ID has the number of the first unique job with that id, from its START until the DONE or
-- the last NACK. Both delete the job's hash, so the number is void if that job has no hash or
-- another id. Also writes NS:jobs, NS:jobs:0 to :9 and NS:alone, if the first job's entry there was
-- deleted.
-- Crash windows: one atomic step. If the reply is lost, the daemon asks again. A lease that has
-- ended is then stale; all other answers are the same.
local lease, delayed, cancel = KEYS[1], KEYS[2], KEYS[3]
local ns, follow_ms = ARGV[1], tonumber(ARGV[2])
local jobs, alone = ns .. ':jobs', ns .. ':alone'

-- A follower asks again after this time if the first job is in a list.
local AGAIN_MS = 10000

-- include parts/wrong_type.lua
local wrong = wrong_type(lease, 'zset') or wrong_type(delayed, 'zset') or wrong_type(cancel, 'zset')
if wrong then return wrong end

-- include parts/now.lua
-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
redis.call('ZREM', lease, '')

local k, a = 4, 3
-- include parts/arguments.lua
-- include parts/own.lua
-- include parts/push_back.lua

-- The lease ends last: if Redis denies a command before, the job is still leased, or left to REAP.
local function wait(one, due)
    local attempt = math.max(0, (tonumber(one.attempt) or 1) - 1)
    if one.waits then
        if redis.call('TYPE', one.waits).ok ~= 'set' then redis.call('DEL', one.waits) end
        redis.call('SADD', one.waits, one.number)
        redis.call('HSET', one.job, 'waits', one.id)
    end
    redis.call('ZADD', delayed, string.format('%.0f', due), one.number)
    redis.call('HDEL', one.job, 'token', 'owner')
    redis.call('HSET', one.job, 'state', 'delayed', 'attempt', attempt)
    redis.call('ZREM', lease, one.number)
    redis.pcall('SREM', own(one.token), one.number)
    return 2, ''
end

-- Returns a time in Unix ms. A time relative to the first START is kept in the job's hash, so that
-- retries do not postpone it.
local function time_of(one, field, text)
    if text:sub(1, 1) ~= '+' then return tonumber(text) end
    local kept = tonumber(redis.call('HGET', one.job, field) or nil)
    if kept then return kept end
    local due = now + tonumber(text:sub(2))
    redis.call('HSET', one.job, field, string.format('%.0f', due))
    return due
end

local function last_cancelled(member)
    return tonumber(redis.call('ZSCORE', cancel, member) or nil)
end

-- For a job with a priority, one member has the limit of the jobs that had numbers at the time of
-- the cancel, and one that of its list (cancel.lua). Older clients wrote only the member ID.
local function is_cancelled(one)
    local number, last = tonumber(one.number), one.list and last_cancelled(one.id .. '\n')
    last = last or last_cancelled(one.id) or -1
    if one.list then last = math.max(last, last_cancelled(one.id .. '\n' .. one.list) or -1) end
    return last >= number
end

-- Returns the kept result of the first job if it answers this one. The result of a dead job answers
-- only jobs that waited for it: a dead job that is pushed again is a retry.
local function kept_result(one)
    local kept = redis.pcall('GET', one.result)
    if is_mistyped(kept) or not kept then return nil end
    -- Only the members at the start of the result: its `meta` may hold the text of another result.
    local number, at = kept:match('"job":(%d+),()')
    local status = number and (kept:match('^"status":"(%a+)"', at)
        or kept:match('^"shard":%d+,"status":"(%a+)"', at))
    if status == 'done' or status == 'failed' or (status == 'dead' and number == one.follows) then
        return kept
    end
end

-- The list of the first job may have been deleted by hand; its followers would wait forever. Puts
-- the job back if it is not where its state says. Only a scan could tell whether a list has its
-- entry. Therefore the job goes back to an empty list at once, and to another list if a follower
-- asks again. Returned jobs are taken first, so by then it rarely has an entry; FETCH drops a
-- second entry.
local function put_back_first(first, one, job, state, list, returned)
    local asks_again = one.follows == first and now - (tonumber(returned) or 0) >= AGAIN_MS
    if state == 'delayed' then
        if not redis.call('ZSCORE', delayed, first) then redis.call('ZADD', delayed, now, first) end
    elseif state == 'leased' or state == 'burying' then
        -- If its daemon is alive, RENEW corrects this; else REAP takes it.
        if not redis.call('ZSCORE', lease, first) then redis.call('ZADD', lease, now, first) end
    elseif state == 'alone' then
        if asks_again or redis.call('LLEN', alone) == 0 then redis.call('RPUSH', alone, first) end
    elseif asks_again or (redis.call('LLEN', jobs) == 0 and
                          not (list and redis.call('EXISTS', jobs .. ':' .. list) == 1)) then
        push_back('RPUSH', list, '@' .. first)
    end
    if asks_again then redis.call('HSET', job, 'returned', now) end
end

local STATES = {ready = true, alone = true, delayed = true, leased = true, burying = true}
-- Returns the state of a job that holds an id; nil if there is no such job. Puts it back if its
-- entry was deleted.
local function state_of_first(first, one)
    local job = ns .. ':job:' .. first
    local found = redis.pcall('HMGET', job, 'id', 'state', 'list', 'returned')
    if is_mistyped(found) or found[1] ~= one.id or not STATES[found[2]] or
        redis.call('HEXISTS', job, 'raw') == 0 then
        return nil
    end
    put_back_first(first, one, job, unpack(found, 2))
    return found[2]
end

-- Returns nil if this job is the first with its id, else the decision.
local function follow(one)
    local first = redis.pcall('GET', one.unique)
    if is_mistyped(first) then first = nil end
    if first == one.number then return nil end
    local state = first and state_of_first(first, one)
    if state then
        redis.call('HSET', one.job, 'follows', first)
        local is_queued = state == 'ready' or state == 'alone'
        return wait(one, now + (is_queued and math.min(AGAIN_MS, follow_ms) or follow_ms))
    end
    local kept = kept_result(one)
    if kept then return 4, kept end
    redis.call('SET', one.unique, one.number)
    redis.call('HSET', one.job, 'id', one.id)
end

local function rule(one)
    if one.id ~= '' and is_cancelled(one) then return 5, '' end
    if one.is_unique then
        local ruling, kept = follow(one)
        if ruling then return ruling, kept end
    end
    if one.expires >= 0 then
        if now >= one.expires then return 3, one.laters or '' end
        redis.call('HSET', one.job, 'expires', string.format('%.0f', one.expires))
    end
    if now < one.not_before then return wait(one, one.not_before) end
    return 1, ''
end

local reply = {}
while a <= #ARGV do
    local one = {number = next_arg(), token = next_arg(), id = next_arg(),
                 is_unique = next_arg() == '1', not_before = next_arg(), expires = next_arg(),
                 job = next_key()}
    if one.id ~= '' then
        one.waits, one.unique, one.result = next_key(), next_key(), next_key()
    end
    local found = redis.pcall('HMGET', one.job, 'token', 'attempt', 'follows', 'list', 'laters')
    local ruling, kept
    if is_mistyped(found) or found[1] ~= one.token then
        ruling, kept = redis.call('EXISTS', one.job) == 1 and 0 or -1, ''
    else
        one.attempt, one.follows, one.list, one.laters = unpack(found, 2)
        one.not_before = time_of(one, 'not_before', one.not_before)
        one.expires = time_of(one, 'expires', one.expires)
        ruling, kept = rule(one)
    end
    reply[#reply + 1] = ruling
    reply[#reply + 1] = kept
end
return reply
