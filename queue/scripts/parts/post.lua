-- DONE and NACK call these in the order keep, may_post, post, so that a result is posted once even
-- if an ACL denies a command: until the first LPUSH or XADD, the call can be repeated, and after it
-- nothing fails.
local posted, trimmed = {}, 0
-- Keeps a result for NS:result:ID.
local function keep(result, id_key)
    redis.call('SET', id_key, result, 'PX', ttl_ms)
end
-- Raises an error if Redis denies a command that comes after the first LPUSH. These change nothing.
local function may_post(never, reply_key)
    redis.call('DEL', never)
    if reply_key then redis.call('PEXPIRE', never, 1) end
    if is_stream then redis.call('XADD', never, 'NOMKSTREAM', '*', 'job', '') end
end
-- Pushes entries to a list of at most `max` (0: no limit), and counts those that are trimmed.
local function push_bounded(key, max, ...)
    local over = redis.call('LPUSH', key, ...) - max
    if max > 0 and over > 0 and not redis.pcall('LTRIM', key, 0, max - 1).err then
        trimmed = trimmed + over
    end
end
-- Posts a result. Those for KEYS 2 are collected in `posted`, and added at the end; for a stream,
-- each one follows its job's number.
local function post(number, result, reply_key, listed)
    if reply_key and not wrong_type(reply_key, 'list') then
        push_bounded(reply_key, results_max, result)
        redis.call('PEXPIRE', reply_key, ttl_ms)
    elseif listed then
        if is_stream then posted[#posted + 1] = number end
        posted[#posted + 1] = result
    end
end
