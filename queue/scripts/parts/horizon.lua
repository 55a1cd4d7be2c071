-- NS:cancel has for each cancelled id the last job number that the cancel applies to. While the
-- fence of the cancel is in NS:jobs, the score is FENCED or more, because the cancel applies to any
-- number.
local FENCED = 4e15
-- The set keeps the newest members whose fences were taken. A backlog of cancels may leave hundreds
-- of thousands; each call removes some, so that Redis is never busy for long: 64 take it 0.1 ms.
local KEPT, FORGET_MOST = 20000, 64
-- room: for so many new members.
local function forget_cancels(cancel, room)
    local over = redis.call('ZCOUNT', cancel, '-inf', '(' .. FENCED) + room - KEPT
    if over > 0 then
        redis.call('ZREMRANGEBYRANK', cancel, 0, math.min(over, FORGET_MOST) - 1)
    end
end
-- Returns the highest score, or -1 if there is none. For a key of another type: nil and the error.
local function horizon(cancel)
    local highest = redis.pcall('ZREVRANGE', cancel, 0, 0, 'WITHSCORES')
    if highest.err then return nil, wrong_type(cancel, 'zset') or highest end
    return tonumber(highest[2] or -1)
end
