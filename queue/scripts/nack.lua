-- NACK: ends a batch of leases without success. A job is given back with its attempt, or delayed
-- until its next attempt, with or without its attempt, or dead if no attempt is left.
--
-- KEYS  1 lease  2 results, or results:stream  3 jobs  4 delayed  5 alone  6 dead  7 woken; then
--       for each lease job:N; result:ID if the result is kept there; unique:ID and waits:ID if the
--       job is unique; the reply list if it has one; and the key of each value
-- ARGV  1 results_max  2 TTL of kept results, ms  3 dead_max  4 attempts  5 first delay, ms; then
--       for each lease number, token, kind (retry, back, later), result if the job is dead (else
--       ""), kept by id (0: no, 1: yes, 2: yes, and unique), destination (1: reply list, 0: KEYS
--       2, -: none), number of values, and for each value its bytes and its TTL in seconds (0:
--       none). Result and values are stored only if the job is dead
-- Reply {results and dead jobs trimmed, then for each lease 1 back in the queue, 2 dead, 0 stale
--       (another daemon has the job), -1 stale (the job is gone)}
--
-- Also writes KEYS 3 .. ":0" to ":9", to which jobs with a priority return, and KEYS 6 ..
-- ":errors": for each dead job its result, with a digest of the job's text, the time and the
-- priority of its list, if it had one, as first members.
-- The delay grows fourfold with each attempt, to one hour at most, and never exceeds the time until
-- the job expires. After `later`, which gives the attempt back, it grows with each such end, to
-- five minutes at most; NS:job:N counts them in the field `laters`.
-- If an ACL denies a command, the leases before it have ended, and this one has not, or is left to
-- REAP.
-- Crash windows: one atomic step. If the reply is lost, the daemon sends the call again and gets 0
-- or -1, because the token is gone.
local lease, results, jobs, delayed, alone, dead, woken =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local results_max, ttl_ms, dead_max, attempts, delay_ms =
    tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local DELAY_LAST_MS, LATER_LAST_MS = 3600000, 300000

-- include parts/wrong_type.lua
-- include parts/results_type.lua
local wrong = wrong_type(lease, 'zset') or results_refusal()
    or wrong_type(jobs, 'list') or wrong_type(delayed, 'zset') or wrong_type(alone, 'list')
    or wrong_type(dead, 'list') or wrong_type(dead .. ':errors', 'list')
    or wrong_type(woken, 'list')
if wrong then return wrong end

-- include parts/now.lua

-- include parts/post.lua
-- include parts/dead_error.lua
local function give_up(raw, list, result)
    local errors = dead .. ':errors'
    local record = string.format('{"of":"%s","time":%.3f', digest_of(raw), now / 1000)
    if list then record = record .. ',"list":' .. list end
    redis.call('LPUSH', errors, record .. (result:byte() == 123 and ',' .. result:sub(2) or '}'))
    push_bounded(dead, dead_max, raw)
    redis.pcall('LTRIM', errors, 0, redis.call('LLEN', dead) + SLACK - 1)
end

-- include parts/push_back.lua
-- include parts/requeue.lua
-- include parts/store.lua
-- include parts/wake.lua
-- include parts/release.lua
-- include parts/own.lua

local k, a = 8, 6
-- include parts/arguments.lua

-- times: how many delays the job has had, with this one. ...: more fields of its hash.
local function delay(one, times, last_ms, ...)
    local due = math.min(now + math.min(delay_ms * 4 ^ (times - 1), last_ms), one.expires)
    redis.call('ZADD', delayed, string.format('%.0f', due), one.number)
    redis.call('HDEL', one.job, 'token', 'owner', 'crashed')
    redis.call('HSET', one.job, 'state', 'delayed', ...)
    redis.call('ZREM', lease, one.number)
end

local function dead_letter(one, list)
    local raw = redis.call('HGET', one.job, 'raw') or ''
    for _, value in ipairs(one.values) do store(unpack(value)) end
    if one.id_key and one.result ~= '' then keep(one.result, one.id_key) end
    if one.unique then release(one.number, one.unique, one.waits, woken) end
    may_post(lease:sub(1, -6) .. 'never', one.reply_key)
    give_up(raw, list, one.result)
    if one.result ~= '' then post(one.number, one.result, one.reply_key, one.goes_to ~= '-') end
    redis.call('ZREM', lease, one.number)
    redis.call('DEL', one.job)
end

local reply = {0}
local function end_next()
    local number, token, kind, result = next_arg(), next_arg(), next_arg(), next_arg()
    local has_id, goes_to = next_arg(), next_arg()
    local job = next_key()
    local id_key = has_id ~= '0' and next_key()
    local unique, waits
    if has_id == '2' then unique, waits = next_key(), next_key() end
    local reply_key = goes_to == '1' and next_key()
    local values = {}
    for i = 1, tonumber(next_arg()) do
        values[i] = {next_key(), next_arg(), tonumber(next_arg())}
    end
    local found = redis.pcall('HMGET', job, 'token', 'attempt', 'expires', 'list', 'crashed',
                             'laters')
    if is_mistyped(found) or found[1] ~= token then
        reply[#reply + 1] = redis.call('EXISTS', job) == 1 and 0 or -1
    else
        local attempt = tonumber(found[2]) or 1
        local one = {number = number, job = job, result = result, id_key = id_key, unique = unique,
                     waits = waits, reply_key = reply_key, goes_to = goes_to, values = values,
                     expires = tonumber(found[3]) or math.huge}
        if kind == 'back' then
            requeue(job, number, math.max(0, attempt - 1), found[4], found[5])
        elseif kind == 'later' then
            local laters = (tonumber(found[6]) or 0) + 1
            delay(one, laters, LATER_LAST_MS, 'attempt', math.max(0, attempt - 1), 'laters', laters)
        elseif attempt < attempts then
            delay(one, attempt, DELAY_LAST_MS)
        else
            dead_letter(one, found[4])
        end
        redis.pcall('SREM', own(token), number)
        reply[#reply + 1] = kind == 'retry' and attempt >= attempts and 2 or 1
    end
end

-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
redis.call('ZREM', lease, '')
local ended, failure = pcall(function()
    while a <= #ARGV do end_next() end
end)
-- Also after a failure: the dead jobs before it have ended.
if is_stream then
    -- Included only here, so that calls with results = list do not define these functions.
-- include parts/stream.lua
-- include parts/add_to_stream.lua
    if #posted > 0 then add_to_stream() end
elseif #posted > 0 then
    push_bounded(results, results_max, unpack(posted))
end
if not ended then
    return type(failure) == 'table' and failure or redis.error_reply(failure)
end
reply[1] = trimmed
return reply
