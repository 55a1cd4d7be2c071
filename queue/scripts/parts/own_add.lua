-- Adds leases to their daemon's set. A key of another type is replaced: the set is only an index of
-- NS:job:N.
local function own_add(token, numbers)
    local key = own(token)
    local added = redis.pcall('SADD', key, unpack(numbers))
    if type(added) ~= 'table' then return end
    if wrong_type(key, 'set') then redis.call('DEL', key) end
    redis.call('SADD', key, unpack(numbers))
end
