-- With results = stream, results go to the stream :results:stream, from which each consumer group
-- reads all of them.

-- Returns whether ID a is lower than ID b.
local function is_before(a, b)
    local a_ms, a_count = a:match('(%d+)-(%d+)')
    local b_ms, b_count = b:match('(%d+)-(%d+)')
    if a_ms ~= b_ms then return tonumber(a_ms) < tonumber(b_ms) end
    return tonumber(a_count) < tonumber(b_count)
end
-- Returns the name of this consumer group, its number of pending entries, and its last delivered ID.
local function parts_of(group)
    local name, pending, last
    for i = 1, #group, 2 do
        if group[i] == 'name' then name = group[i + 1] end
        if group[i] == 'pending' then pending = group[i + 1] end
        if group[i] == 'last-delivered-id' then last = group[i + 1] end
    end
    return name, pending, last
end
-- Returns the first ID that this consumer group still needs, or nil and the error if Redis denies
-- XPENDING.
local function needed_by(stream, group)
    local name, pending, last = parts_of(group)
    if pending > 0 then
        local found = redis.pcall('XPENDING', stream, name)
        if found.err then return nil, found end
        return found[2]
    end
    return (last:gsub('%d+$', function(count) return string.format('%.0f', count + 1) end))
end
-- Deletes the entries before the first one that a consumer group has not acknowledged. Keeps all if
-- there is no group.
-- Returns the error if Redis denies a command. DONE and NACK ignore it: an error after their first
-- writes would make the daemon send the batch again, and post its results twice.
local function forget_read(stream)
    local groups, first = redis.pcall('XINFO', 'GROUPS', stream), nil
    if groups.err then return groups end
    for _, group in ipairs(groups) do
        local needed, denied = needed_by(stream, group)
        if denied then return denied end
        if not first or is_before(needed, first) then first = needed end
    end
    local trimmed = first and redis.pcall('XTRIM', stream, 'MINID', first)
    if type(trimmed) == 'table' then return trimmed end
end
