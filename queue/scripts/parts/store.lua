-- Stores a value under its key. ttl_s = 0: without expiry.
local function store(key, bytes, ttl_s)
    redis.call('SET', key, bytes)
    if ttl_s > 0 then redis.call('EXPIRE', key, ttl_s) end
end
