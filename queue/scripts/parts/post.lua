-- Pushes entries to a list of at most `max` (0: no limit), and counts those that are trimmed.
local posted, posted_numbers, trimmed = {}, {}, 0
local function push_bounded(key, max, ...)
    local over = redis.call('LPUSH', key, ...) - max
    if max > 0 and over > 0 then
        redis.call('LTRIM', key, 0, max - 1)
        trimmed = trimmed + over
    end
end
-- Posts a result. Those for :results are collected in `posted`, for post_collected.
local function post(number, result, id_key, reply_key, listed)
    if reply_key and not wrong_type(reply_key, 'list') then
        push_bounded(reply_key, results_max, result)
        redis.call('PEXPIRE', reply_key, ttl_ms)
    elseif listed then
        posted[#posted + 1] = result
        posted_numbers[#posted] = number
    end
    if id_key then redis.call('SET', id_key, result, 'PX', ttl_ms) end
end
-- Adds the collected results to the stream. Only the results that some consumer group has not
-- acknowledged count as trimmed.
local function add_to_stream()
    for i, result in ipairs(posted) do
        redis.call('XADD', results, '*', 'job', posted_numbers[i], 'result', result)
    end
    if results_max <= 0 or redis.call('XLEN', results) <= results_max then return end
    forget_read(results)
    trimmed = trimmed + redis.call('XTRIM', results, 'MAXLEN', results_max)
end
local function post_collected()
    if #posted == 0 then return end
    if results_type == 'list' then
        push_bounded(results, results_max, unpack(posted))
    else
        add_to_stream()
    end
end
