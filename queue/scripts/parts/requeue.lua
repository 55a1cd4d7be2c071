-- Ends the lease of a job and queues it for its next attempt: to :alone if that attempt is the last
-- one and `crashed` is set, else to the list that it came from.
-- crashed: REAP ended the last attempt, in which the job may have killed its daemon. NS:job:N has
-- it as the field `crashed`, until an attempt fails in another way.
-- The entry comes first. If Redis denies a later command, the job is still in NS:lease, and FETCH
-- drops the entry.
local function requeue(job, number, attempt, list, crashed)
    local alone_next = crashed and attempt >= 1 and attempts - attempt <= 1
    if alone_next then
        redis.call('RPUSH', alone, number)
    else
        push_back('RPUSH', list, '@' .. number)
    end
    redis.call('HDEL', job, 'token', 'owner')
    redis.call('HSET', job, 'state', alone_next and 'alone' or 'ready', 'attempt', attempt)
    redis.call('ZREM', lease, number)
end
