-- Moves up to `count` jobs that DONE, NACK and CANCEL woke to their lists. Followers go after all
-- jobs that wait there. Cancelled jobs go before them, because they only need a result.
local function wake_one(number, push)
    local key = ns .. ':job:' .. number
    local job = redis.pcall('HMGET', key, 'state', 'waits', 'attempt', 'list', 'crashed')
    if is_mistyped(job) or job[1] ~= 'delayed' or not job[2] then return end
    ready(number, tonumber(job[3]) or 0, push, job[4], job[5])
    redis.pcall('SREM', ns .. ':waits:' .. job[2], number)
    redis.call('HDEL', key, 'waits')
    redis.call('ZREM', delayed, number)
end

local function move_woken(count)
    while count > 0 do
        local name = redis.call('LINDEX', woken, 0)
        if not name then return end
        local set = woken .. ':' .. name
        if wrong_type(set, 'set') then redis.call('DEL', set) end
        local numbers = redis.call('SRANDMEMBER', set, count)
        local push = name:match('^cancel:') and 'RPUSH' or 'LPUSH'
        for _, number in ipairs(numbers) do wake_one(number, push) end
        if #numbers > 0 then redis.call('SREM', set, unpack(numbers)) end
        if #numbers < count then redis.call('LPOP', woken) end
        count = count - math.max(1, #numbers)
    end
end
