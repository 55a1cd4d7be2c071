-- DONE: ends a batch of leases and posts their results.
--
-- KEYS  1 lease  2 results, or results:stream; then for each lease job:N; result:ID if the result
--       is kept there; unique:ID, waits:ID and woken if the job is unique; the reply list if it has
--       one; and the key of each value
-- ARGV  1 results_max, for KEYS 2 and for each reply list (0: no limit)  2 TTL of kept results,
--       ms; then for each lease number, token, result, kept by id (0: no, 1: yes, 2: yes, and
--       unique), destination (1: reply list, 0: KEYS 2, -: none), number of values, and for each
--       value its bytes and its TTL in seconds (0: none)
-- Reply {results trimmed, then for each lease 1 done, 0 stale (another daemon has the job), -1
--       stale (the job is gone)}
--
-- If the reply key holds another type than a list, the result goes to KEYS 2.
-- The leases end last, after all that an ACL may deny.
-- Crash windows: one atomic step. If the reply is lost, the daemon sends it again and gets -1.
local lease, results = KEYS[1], KEYS[2]
local results_max, ttl_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include parts/wrong_type.lua
-- include parts/checked.lua
-- include parts/results_type.lua
wrong = results_refusal()

-- include parts/post.lua
-- include parts/store.lua
-- include parts/wake.lua
-- include parts/release.lua
-- include parts/own.lua

-- k, a: index of the next lease's keys and arguments.
local KEYS, ARGV, k, a = KEYS, ARGV, 3, 3
-- First read the arguments and check all tokens, then write, with few commands for all leases.
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
    local found = redis.pcall('HGET', job, 'token')
    if found == token then
        ended[#ended + 1], numbers[#numbers + 1], jobs[#jobs + 1] = one, number, job
        mine = mine or own(token)
        reply[#reply + 1] = 1
    else
        reply[#reply + 1] = (is_mistyped(found) or redis.call('EXISTS', job) == 1) and 0 or -1
    end
end
if wrong then return wrong end
if #ended == 0 then return reply end

-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
checked('zset', 'ZREM', lease, '')
if wrong then return wrong end
local any_reply
for _, one in ipairs(ended) do
    if one.values then
        for _, value in ipairs(one.values) do store(unpack(value)) end
    end
    if one.id_key then keep(one.result, one.id_key) end
    if one.unique then release(one.number, one.unique, one.waits, one.woken) end
    any_reply = any_reply or one.reply_key
end
may_post(lease:sub(1, -6) .. 'never', any_reply)
for _, one in ipairs(ended) do post(one.number, one.result, one.reply_key, one.listed) end
if is_stream then
    -- Included only here, so that calls with results = list do not define these functions.
-- include parts/stream.lua
-- include parts/add_to_stream.lua
    if #posted > 0 then add_to_stream() end
elseif #posted > 0 then
    push_bounded(results, results_max, unpack(posted))
end
redis.call('ZREM', lease, unpack(numbers))
redis.pcall('SREM', mine, unpack(numbers))
redis.call('DEL', unpack(jobs))
reply[1] = trimmed
return reply
