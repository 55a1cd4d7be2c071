-- Jobs that wait for a time or for another job with their id are made due; waits: their numbers.
local function wake(waits, delayed)
    local numbers = redis.pcall('SMEMBERS', waits)
    for _, number in ipairs(numbers.err and {} or numbers) do
        redis.call('ZADD', delayed, 'XX', 0, number)
    end
end
