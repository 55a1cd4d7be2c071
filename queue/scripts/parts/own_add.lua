-- Notes leases in their daemon's set. One of another type is replaced: the set can be made again
-- from NS:job:N.
local function own_add(token, numbers)
    local key = own(token)
    if type(redis.pcall('SADD', key, unpack(numbers))) == 'table' then
        redis.call('DEL', key)
        redis.call('SADD', key, unpack(numbers))
    end
end
