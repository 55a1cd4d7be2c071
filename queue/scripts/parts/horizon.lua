-- NS:cancel has for each cancelled id the last job number that is meant, or, while the fence of
-- that cancel is still in the list, so that every number may be meant, FENCED and more.
local FENCED = 4e15
local function horizon(cancel)
    return tonumber(redis.call('ZREVRANGE', cancel, 0, 0, 'WITHSCORES')[2] or -1)
end
