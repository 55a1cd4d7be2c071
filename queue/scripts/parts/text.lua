-- A job's text for a daemon; of one with more than `bytes_max` bytes its length and its beginning,
-- by which whoever pushed it can find it (JOB_EXCERPT_BYTES_MAX). raw: the text, if it is at hand.
local function text_of(job, raw, bytes_max)
    local bytes = raw and #raw or redis.call('HSTRLEN', job, 'raw')
    raw = raw or redis.call('HGET', job, 'raw')
    return bytes <= bytes_max and raw or {bytes, raw:sub(1, 160)}
end
