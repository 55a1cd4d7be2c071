-- Adds leases to their daemon's set. A key of another type is replaced: the set is only an index of
-- NS:job:N.
local function own_add(token, numbers)
    local key = own(token)
    if type(redis.pcall('SADD', key, unpack(numbers))) == 'table' then
        redis.call('DEL', key)
        redis.call('SADD', key, unpack(numbers))
    end
end
