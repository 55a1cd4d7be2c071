-- Ends the lease of a job and queues it for its next attempt: to :alone if that attempt is the last
-- one, else to the list that it came from.
-- The entry comes first. If Redis denies a later command, the job is still in NS:lease, and FETCH
-- drops the entry.
local function requeue(job, number, attempt, list)
    local last = attempt >= 1 and attempts - attempt <= 1
    if last then
        redis.call('RPUSH', alone, number)
    else
        push_back('RPUSH', list, '@' .. number)
    end
    redis.call('HDEL', job, 'token', 'owner')
    redis.call('HSET', job, 'state', last and 'alone' or 'ready', 'attempt', attempt)
    redis.call('ZREM', lease, number)
end
