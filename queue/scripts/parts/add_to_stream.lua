-- Adds the collected results to the stream. Only entries that some consumer group has not
-- acknowledged count as trimmed.
local function add_to_stream()
    for i = 1, #posted, 2 do
        redis.call('XADD', results, '*', 'job', posted[i], 'result', posted[i + 1])
    end
    if results_max <= 0 then return end
    local length = redis.pcall('XLEN', results)
    if type(length) == 'number' and length <= results_max then return end
    forget_read(results)
    trimmed = trimmed + redis.call('XTRIM', results, 'MAXLEN', results_max)
end
