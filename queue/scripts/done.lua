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
local wrong = wrong_type(lease, 'zset') or wrong_type(results, 'list')
if wrong then return wrong end

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

local k, a = 3, 3
-- include parts/arguments.lua

-- What each lease comes to; then the writes, each kind in one call where that can be.
local reply, ended, numbers, jobs, mine = {0}, {}, {}, {}, nil
while a <= #ARGV do
    local number, token, result = next_arg(), next_arg(), next_arg()
    local has_id, goes_to, count = next_arg(), next_arg(), tonumber(next_arg())
    local job = next_key()
    local one = {result = result, id_key = has_id ~= '0' and next_key(), values = {}}
    if has_id == '2' then
        one.number, one.unique, one.waits, one.woken = number, next_key(), next_key(), next_key()
        wrong = wrong or wrong_type(one.woken, 'list')
    end
    one.reply_key, one.listed = goes_to == '1' and next_key(), goes_to ~= '-'
    for i = 1, count do one.values[i] = {next_key(), next_arg(), tonumber(next_arg())} end
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

redis.call('ZREM', lease, unpack(numbers)) -- first: it only frees memory
redis.pcall('SREM', mine, unpack(numbers))
for _, one in ipairs(ended) do
    for _, value in ipairs(one.values) do store(unpack(value)) end
    post(one.result, one.id_key, one.reply_key, one.listed)
    if one.unique then release(one.number, one.unique, one.waits, one.woken) end
end
if #posted > 0 then push_bounded(results, unpack(posted)) end
redis.call('DEL', unpack(jobs))
reply[1] = trimmed
return reply
