-- A dead consumer can leave an old entry pending, and forget_read stops there. This deletes at most
-- `count` entries after it that every group has acknowledged. It checks only the oldest entries, because
-- XRANGE returns them with their results.
local function forget_between(stream, count)
    local LOOK = 128
    local oldest = redis.pcall('XRANGE', stream, '-', '+', 'COUNT', LOOK)
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    if oldest.err or groups.err or #groups == 0 or #oldest == 0 then return end
    local needed, gone = {}, {}
    for _, group in ipairs(groups) do
        local name, _, last = parts_of(group)
        local pending =
            redis.pcall('XPENDING', stream, name, oldest[1][1], oldest[#oldest][1], LOOK)
        if pending.err then return end
        for _, entry in ipairs(pending) do needed[entry[1]] = true end
        -- XPENDING also lists entries that are no longer in the stream, so a full reply may be
        -- incomplete. Then all entries after its last ID are kept.
        if #pending == LOOK and is_before(pending[LOOK][1], last) then last = pending[LOOK][1] end
        for _, entry in ipairs(oldest) do
            if is_before(last, entry[1]) then needed[entry[1]] = true end
        end
    end
    for _, entry in ipairs(oldest) do
        if #gone < count and not needed[entry[1]] then gone[#gone + 1] = entry[1] end
    end
    if #gone > 0 then redis.pcall('XDEL', stream, unpack(gone)) end
end
-- Adds the collected results to the stream. Counts the entries that XTRIM deletes; acknowledged ones
-- are deleted first, where possible, and are not counted.
local function add_to_stream()
    for i = 1, #posted, 2 do
        redis.call('XADD', results, '*', 'job', posted[i], 'result', posted[i + 1])
    end
    if results_max <= 0 then return end
    local length = redis.pcall('XLEN', results)
    if type(length) == 'number' and length <= results_max then return end
    forget_read(results)
    length = redis.pcall('XLEN', results)
    if type(length) == 'number' and length > results_max then
        forget_between(results, length - results_max)
    end
    trimmed = trimmed + redis.call('XTRIM', results, 'MAXLEN', results_max)
end
