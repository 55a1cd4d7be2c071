-- DONE: ends leases with their results; many a call.
--
-- KEYS  1 lease  2 results, then for each lease job:N, result:ID if it has an id, the reply list
--       if it has one, and the key of each value
-- ARGV  1 results_max (0: no bound)  2 life of kept results, ms, then for each lease number,
--       token, result, has an id (1, 0), has a reply list (1, 0), count of values, and of each
--       value its bytes and its life in seconds (0: for ever)
-- Reply {results trimmed, then for each lease 1 done, 0 stale (another has it), -1 stale (the job
--       is gone)}
--
-- A reply key that is no list cannot take the result: it goes to :results then.
-- Crash windows: one atomic step. If the reply is lost, the daemon sends it again and hears -1.
local lease, results = KEYS[1], KEYS[2]
local results_max, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

local function wrong_type(key, kind)
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
end
local wrong = wrong_type(lease, 'zset') or wrong_type(results, 'list')
if wrong then return wrong end

local trimmed = 0
local function push_bounded(key, value, max)
    local over = redis.call('LPUSH', key, value) - max
    if max > 0 and over > 0 then
        redis.call('LTRIM', key, 0, max - 1)
        trimmed = trimmed + over
    end
end

local function post(result, id_key, reply_key)
    if reply_key and not wrong_type(reply_key, 'list') then
        redis.call('LPUSH', reply_key, result)
        redis.call('PEXPIRE', reply_key, ttl_ms)
    else
        push_bounded(results, result, results_max)
    end
    if id_key then redis.call('SET', id_key, result, 'PX', ttl_ms) end
end

local k, a = 3, 3
local function next_key()
    k = k + 1
    return KEYS[k - 1]
end
local function next_arg()
    a = a + 1
    return ARGV[a - 1]
end

local reply = {0}
while a <= #ARGV do
    local number, token, result = next_arg(), next_arg(), next_arg()
    local has_id, has_reply, count = next_arg() == '1', next_arg() == '1', tonumber(next_arg())
    local job = next_key()
    local id_key = has_id and next_key()
    local reply_key = has_reply and next_key()
    local held = redis.pcall('HGET', job, 'token')
    local mine = held == token
    if mine then redis.call('ZREM', lease, number) end -- first: it only frees memory
    for _ = 1, count do
        local key, value, ttl_s = next_key(), next_arg(), tonumber(next_arg())
        if mine and ttl_s > 0 then
            redis.call('SET', key, value, 'EX', ttl_s)
        elseif mine then
            redis.call('SET', key, value)
        end
    end
    if mine then
        post(result, id_key, reply_key)
        redis.call('DEL', job)
        reply[#reply + 1] = 1
    else
        reply[#reply + 1] = redis.call('EXISTS', job) == 1 and 0 or -1
    end
end
reply[1] = trimmed
return reply
