-- NS:dead:errors holds why each job of NS:dead died, in the same order. Who moves jobs by hand moves
-- no errors with them, so each begins with the digest of its job's text, and that of a job is looked
-- for in its own place and up to SLACK places around it.
local SLACK = 100
local DIGESTED = 65536 -- bytes of a text: JOB_BYTES_MAX, which most jobs are far from
local function digest_of(text)
    return redis.sha1hex(text:sub(1, DIGESTED)) .. ':' .. #text
end
-- The errors around those of the jobs at first..last, for error_of.
local function errors_around(errors, first, last)
    local from = math.max(0, first - SLACK)
    local found = {from = from, digests = {}, records = redis.call('LRANGE', errors, from, last + SLACK)}
    for i, record in ipairs(found.records) do
        found.digests[i] = record:match('^{"of":"(%x+:%d+)"')
    end
    return found
end
-- That of the job with this text at this place; nil where there is none.
local function error_of(found, text, place)
    local digest, here = digest_of(text), place - found.from + 1
    for away = 0, SLACK do
        if found.digests[here + away] == digest then return found.records[here + away] end
        if found.digests[here - away] == digest then return found.records[here - away] end
    end
end
