-- NS:cancel has for each cancelled id the last job number that is meant, or, while the fence of
-- that cancel is still in the list, so that every number may be meant, FENCED and more.
local FENCED = 4e15
-- The highest of them, -1 where there is none; or nil and the error to reply, of another type.
local function horizon(cancel)
    local highest = redis.pcall('ZREVRANGE', cancel, 0, 0, 'WITHSCORES')
    if highest.err then return nil, wrong_type(cancel, 'zset') end
    return tonumber(highest[2] or -1)
end
