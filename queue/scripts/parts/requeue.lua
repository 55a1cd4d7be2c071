-- Queues a job without a lease for its next attempt: to :alone if that attempt is the last one, else
-- to the list that it came from.
local function requeue(job, number, attempt, list)
    local last = attempt >= 1 and attempts - attempt <= 1
    redis.call('HSET', job, 'state', last and 'alone' or 'ready', 'attempt', attempt)
    if last then
        redis.call('RPUSH', alone, number)
    else
        push_back('RPUSH', list, '@' .. number)
    end
end
