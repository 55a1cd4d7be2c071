-- Returns a job's text for a reply, or its length and its first bytes if it is longer than
-- `bytes_max`. The first bytes (JOB_EXCERPT_BYTES_MAX) identify the job in its error. raw: the
-- text, if known already.
local function text_of(job, raw, bytes_max)
    local bytes = raw and #raw or redis.call('HSTRLEN', job, 'raw')
    raw = raw or redis.call('HGET', job, 'raw')
    return bytes <= bytes_max and raw or {bytes, raw:sub(1, 160)}
end
