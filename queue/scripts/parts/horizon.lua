-- NS:cancel has for each cancelled id the last job number that the cancel applies to. While the
-- fence of the cancel is in NS:jobs, the score is FENCED or more, because the cancel applies to any
-- number.
local FENCED = 4e15
-- Returns the highest score, or -1 if there is none. For a key of another type: nil and the error.
local function horizon(cancel)
    local highest = redis.pcall('ZREVRANGE', cancel, 0, 0, 'WITHSCORES')
    if highest.err then return nil, wrong_type(cancel, 'zset') or highest end
    return tonumber(highest[2] or -1)
end
