-- Pushes entries to a list of at most `max` (0: no limit), and counts those that are trimmed.
local posted, trimmed = {}, 0
local function push_bounded(key, max, ...)
    local over = redis.call('LPUSH', key, ...) - max
    if max > 0 and over > 0 then
        redis.call('LTRIM', key, 0, max - 1)
        trimmed = trimmed + over
    end
end
-- Posts a result. Those for KEYS 2 are collected in `posted`, and added at the end; for a stream,
-- each one follows its job's number.
local function post(number, result, id_key, reply_key, listed)
    if reply_key and not wrong_type(reply_key, 'list') then
        push_bounded(reply_key, results_max, result)
        redis.call('PEXPIRE', reply_key, ttl_ms)
    elseif listed then
        if is_stream then posted[#posted + 1] = number end
        posted[#posted + 1] = result
    end
    if id_key then redis.call('SET', id_key, result, 'PX', ttl_ms) end
end
