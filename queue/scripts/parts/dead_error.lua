-- NS:dead:errors has the error of each job in NS:dead, in the same order. Users may move jobs by
-- hand without their errors. Therefore each error starts with a digest of its job's text. It is
-- searched for at the job's index and up to SLACK entries before and after it.
local SLACK = 100
-- Bytes of a text that the digest covers: JOB_BYTES_MAX. Most jobs are far shorter.
local DIGESTED = 65536
local function digest_of(text)
    return redis.sha1hex(text:sub(1, DIGESTED)) .. ':' .. #text
end
-- Reads the errors for the jobs at first..last, for error_of.
local function errors_around(errors, first, last)
    local from = math.max(0, first - SLACK)
    local found = {from = from, digests = {}, records = redis.call('LRANGE', errors, from, last + SLACK)}
    for i, record in ipairs(found.records) do
        found.digests[i] = record:match('^{"of":"(%x+:%d+)"')
    end
    return found
end
-- Returns the error of the job with this text at this index, or nil.
local function error_of(found, text, place)
    local digest, here = digest_of(text), place - found.from + 1
    for away = 0, SLACK do
        if found.digests[here + away] == digest then return found.records[here + away] end
        if found.digests[here - away] == digest then return found.records[here - away] end
    end
end
