-- Returns the error to reply if a key has the wrong type, else nil. Scripts check all keys before
-- the first write.
local function wrong_type(key, kind)
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
end
-- Returns whether a reply of redis.pcall says that its key has another type. Raises all other
-- errors: a key that an ACL denies may hold a job.
local function is_mistyped(reply)
    if type(reply) ~= 'table' or not reply.err then return false end
    if not reply.err:find('WRONGTYPE', 1, true) then error(reply.err, 0) end
    return true
end
