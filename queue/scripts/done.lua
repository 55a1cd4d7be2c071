-- DONE: ends leases with their results; many a call.
--
-- KEYS  1 lease  2 results, then for each lease job:N, result:ID if it is kept there, unique:ID,
--       waits:ID and woken if it is unique, the reply list if it has one, and the key of each
--       value
-- ARGV  1 results_max, of :results and of each reply list (0: no bound)  2 life of kept results,
--       ms, then for each lease number, token, result, is kept by its id (2: and is unique, 1, 0),
--       has a reply list (1; 0: it goes to :results, -: nowhere), count of values, and of each
--       value its bytes and its life in seconds (0: for ever)
-- Reply {results trimmed, then for each lease 1 done, 0 stale (another has it), -1 stale (the job
--       is gone)}
--
-- A reply key that is no list cannot take the result: it goes to :results then.
-- Crash windows: one atomic step. If the reply is lost, the daemon sends it again and hears -1.
local lease, results = KEYS[1], KEYS[2]
local results_max, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include parts/wrong_type.lua
-- include parts/checked.lua
wrong = wrong_type(results, 'list')

local posted, trimmed = {}, 0
local function push_bounded(key, ...)
    local over = redis.call('LPUSH', key, ...) - results_max
    if results_max > 0 and over > 0 then
        redis.call('LTRIM', key, 0, results_max - 1)
        trimmed = trimmed + over
    end
end

local function post(result, id_key, reply_key, listed)
    if reply_key and not wrong_type(reply_key, 'list') then
        push_bounded(reply_key, result)
        redis.call('PEXPIRE', reply_key, ttl_ms)
    elseif listed then
        posted[#posted + 1] = result
    end
    if id_key then redis.call('SET', id_key, result, 'PX', ttl_ms) end
end

-- include parts/store.lua
-- include parts/wake.lua
-- include parts/release.lua
-- include parts/own.lua

local KEYS, ARGV, k, a = KEYS, ARGV, 3, 3 -- where the next lease's keys and arguments begin
-- What each lease comes to; then the writes, each kind in one call where that can be.
local reply, ended, numbers, jobs, mine = {0}, {}, {}, {}, nil
while a <= #ARGV do
    local number, token, result, has_id, goes_to, count = unpack(ARGV, a, a + 5)
    local job, id_key, unique, waits, woken, reply_key, values = KEYS[k]
    k, a = k + 1, a + 6
    if has_id ~= '0' then id_key, k = KEYS[k], k + 1 end
    if has_id == '2' then
        unique, waits, woken = KEYS[k], KEYS[k + 1], KEYS[k + 2]
        wrong, k = wrong or wrong_type(woken, 'list'), k + 3
    end
    if goes_to == '1' then reply_key, k = KEYS[k], k + 1 end
    if count ~= '0' then values = {} end
    for i = 1, tonumber(count) do
        values[i] = {KEYS[k], ARGV[a], tonumber(ARGV[a + 1])}
        k, a = k + 1, a + 2
    end
    local one = {number = number, result = result, id_key = id_key, unique = unique, waits = waits,
                 woken = woken, reply_key = reply_key, listed = goes_to ~= '-', values = values}
    if redis.pcall('HGET', job, 'token') == token then
        ended[#ended + 1], numbers[#numbers + 1], jobs[#jobs + 1] = one, number, job
        mine = mine or own(token)
        reply[#reply + 1] = 1
    else
        reply[#reply + 1] = redis.call('EXISTS', job) == 1 and 0 or -1
    end
end
if wrong then return wrong end
if #ended == 0 then return reply end

checked('zset', 'ZREM', lease, unpack(numbers)) -- first: it only frees memory
if wrong then return wrong end
redis.pcall('SREM', mine, unpack(numbers))
for _, one in ipairs(ended) do
    for _, value in ipairs(one.values or {}) do store(unpack(value)) end
    post(one.result, one.id_key, one.reply_key, one.listed)
    if one.unique then release(one.number, one.unique, one.waits, one.woken) end
end
if #posted > 0 then push_bounded(results, unpack(posted)) end
redis.call('DEL', unpack(jobs))
reply[1] = trimmed
return reply
