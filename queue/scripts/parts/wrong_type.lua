-- Returns the error to reply if a key has the wrong type, else nil. Scripts check all keys before
-- the first write.
local function wrong_type(key, kind)
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
end
