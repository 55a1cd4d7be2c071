-- Queues a job without a lease for its next attempt: to :alone if that attempt is the last one.
local function requeue(job, number, attempt)
    local last = attempt >= 1 and attempts - attempt <= 1
    redis.call('HSET', job, 'state', last and 'alone' or 'ready', 'attempt', attempt)
    redis.call('RPUSH', last and alone or jobs, last and number or '@' .. number)
end
