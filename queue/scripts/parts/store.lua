-- A value under its key; ttl_s 0: for ever.
local function store(key, bytes, ttl_s)
    redis.call('SET', key, bytes)
    if ttl_s > 0 then redis.call('EXPIRE', key, ttl_s) end
end
