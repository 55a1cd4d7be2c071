-- Notes leases in their daemon's set, which lasts as long as its name. One of another type is
-- replaced: the set can be made again from NS:job:N.
local function own_add(token, numbers, lease_ms)
    local key = own(token)
    if type(redis.pcall('SADD', key, unpack(numbers))) == 'table' then
        redis.call('DEL', key)
        redis.call('SADD', key, unpack(numbers))
    end
    redis.call('PEXPIRE', key, 10 * lease_ms)
end
