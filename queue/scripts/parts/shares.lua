-- Divides the entries that a FETCH may take among its sources, the lists that have jobs. While list
-- P has jobs, its share is proportional to 2^P; :jobs counts as priority 4. This is stride
-- scheduling: each entry that is taken moves the position of its list on by 512 / 2^P. The next
-- entry comes from the list whose position would then be the lowest; of equal ones, from the more
-- urgent list. Between two entries of list 0, list 9 gives 512.
-- NS:shares keeps the positions from one call to the next, relative to the lowest position of a
-- list that still has jobs. It exists only while two lists have jobs. A list that was empty starts
-- at that lowest position, or at its kept position if that is higher: it gains no share in the time
-- in which it had no jobs.
local STRIDE_MAX = 512
local STRIDES = {1, 2, 4, 8, 16, 32, 32, 64, 128, 256, 512}
-- Returns the sources, the most urgent first, the positions that NS:shares has, and the length of
-- each list with a priority (-1: its key has another type or is denied, so it is skipped).
local function open_sources(lists, positions)
    local sources, lengths, kept = {}, {}, {}
    for number in (type(positions) == 'string' and positions or ''):gmatch('%d+') do
        kept[#kept + 1] = math.min(tonumber(number), STRIDE_MAX)
    end
    for index, stride in ipairs(STRIDES) do
        -- :jobs comes before :jobs:4
        local key = index == 6 and jobs or lists[index < 6 and index or index - 1]
        local length = redis.pcall('LLEN', key)
        if type(length) == 'table' then length = -1 end
        local list = key ~= jobs and key:sub(-1) or false
        if list then lengths[tonumber(list) + 1] = length end
        if length > 0 then
            sources[#sources + 1] = {key = key, list = list, index = index, left = length,
                                     count = 0, stride = stride, at = kept[index] or 0}
        end
    end
    return sources, kept, lengths
end
-- Adds to the `count` of each source the number of entries to take from it: `entries` in all.
local function share(sources, entries)
    for _ = 1, entries do
        local best
        for _, source in ipairs(sources) do
            if source.left > 0 and
                (not best or source.at + source.stride < best.at + best.stride) then
                best = source
            end
        end
        if not best then return end
        best.count, best.left, best.at = best.count + 1, best.left - 1, best.at + best.stride
    end
end
-- Returns the positions for NS:shares as a string; nil if fewer than two lists have jobs left.
local function close_sources(sources, kept)
    local lowest, open = math.huge, 0
    for _, source in ipairs(sources) do
        kept[source.index] = source.at
        if source.left > 0 then lowest, open = math.min(lowest, source.at), open + 1 end
    end
    if open < 2 then return nil end
    for index = 1, #STRIDES do kept[index] = math.max(0, (kept[index] or 0) - lowest) end
    return table.concat(kept, ' ')
end
