-- With results = stream, results go to the stream :results:stream, from which each consumer group
-- reads all of them.
-- Returns whether ID a is lower than ID b.
local function is_before(a, b)
    local a_ms, a_count = a:match('(%d+)-(%d+)')
    local b_ms, b_count = b:match('(%d+)-(%d+)')
    if a_ms ~= b_ms then return tonumber(a_ms) < tonumber(b_ms) end
    return tonumber(a_count) < tonumber(b_count)
end
-- Returns the first ID that this consumer group still needs; nil if an ACL hides it.
local function needed_by(stream, group)
    local name, pending, last
    for i = 1, #group, 2 do
        if group[i] == 'name' then name = group[i + 1] end
        if group[i] == 'pending' then pending = group[i + 1] end
        if group[i] == 'last-delivered-id' then last = group[i + 1] end
    end
    if pending > 0 then return redis.pcall('XPENDING', stream, name)[2] end
    return (last:gsub('%d+$', function(count) return string.format('%.0f', count + 1) end))
end
-- Deletes the entries that every consumer group has acknowledged. Keeps all if there is no group. An
-- error must not end the script: results are in the stream by then, and would be added again.
local function forget_read(stream)
    local first
    for _, group in ipairs(redis.pcall('XINFO', 'GROUPS', stream)) do
        local needed = needed_by(stream, group)
        if not needed then return end
        if not first or is_before(needed, first) then first = needed end
    end
    if first then redis.pcall('XTRIM', stream, 'MINID', first) end
end
