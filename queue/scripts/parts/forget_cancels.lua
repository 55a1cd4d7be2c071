-- NS:cancel keeps the newest members whose fences were taken. A backlog of cancels may leave hundreds
-- of thousands; each call removes some, so that Redis is never busy for long: 64 take it 0.1 ms.
local KEPT, FORGET_MOST = 20000, 64
-- added: number of members that the caller will add.
local function forget_cancels(cancel, added)
    local over = redis.call('ZCOUNT', cancel, '-inf', '(' .. FENCED) + added - KEPT
    if over > 0 then
        redis.call('ZREMRANGEBYRANK', cancel, 0, math.min(over, FORGET_MOST) - 1)
    end
end
