-- Shares the places of a FETCH among the lists that have jobs. While list P has jobs, its share is
-- proportional to 2^P; :jobs counts as priority 4. This is stride scheduling: each entry taken from
-- a list moves the list's position on by 512 / 2^P. The next entry comes from the list whose
-- position would be the lowest after it; of two such lists, from the more urgent one. Between two
-- entries of list 0, list 9 gives 512.
-- NS:shares keeps the positions from one call to the next, relative to the lowest position of a
-- list that still has jobs. It exists only while two lists have jobs. A list that was empty starts
-- at that lowest position, or at its kept position if that is higher: it gains no share in the time
-- in which it had no jobs.
local STRIDE_MAX = 512
local STRIDES = {1, 2, 4, 8, 16, 32, 32, 64, 128, 256, 512}
-- Returns the lists with jobs, the most urgent first, their kept positions, and the length of each
-- list by its priority (-1: its key has another type or is denied, so it is skipped).
local function open_lanes(lists, positions)
    local lanes, lengths, kept = {}, {}, {}
    for number in (type(positions) == 'string' and positions or ''):gmatch('%d+') do
        kept[#kept + 1] = math.min(tonumber(number), STRIDE_MAX)
    end
    for place, stride in ipairs(STRIDES) do
        -- :jobs comes before :jobs:4
        local key = place == 6 and jobs or lists[place < 6 and place or place - 1]
        local length = redis.pcall('LLEN', key)
        if type(length) == 'table' then length = -1 end
        local list = key ~= jobs and key:sub(-1) or false
        if list then lengths[tonumber(list) + 1] = length end
        if length > 0 then
            lanes[#lanes + 1] = {key = key, list = list, place = place, left = length, count = 0,
                                 stride = stride, at = kept[place] or 0}
        end
    end
    return lanes, kept, lengths
end
-- Adds to the `count` of each lane the number of entries to take from it, `entries` in all.
local function share(lanes, entries)
    for _ = 1, entries do
        local best
        for _, lane in ipairs(lanes) do
            if lane.left > 0 and (not best or lane.at + lane.stride < best.at + best.stride) then
                best = lane
            end
        end
        if not best then return end
        best.count, best.left, best.at = best.count + 1, best.left - 1, best.at + best.stride
    end
end
-- Returns the positions to keep as a string; nil if fewer than two lists have jobs left.
local function close_lanes(lanes, kept)
    local lowest, open = math.huge, 0
    for _, lane in ipairs(lanes) do
        kept[lane.place] = lane.at
        if lane.left > 0 then lowest, open = math.min(lowest, lane.at), open + 1 end
    end
    if open < 2 then return nil end
    for place = 1, #STRIDES do kept[place] = math.max(0, (kept[place] or 0) - lowest) end
    return table.concat(kept, ' ')
end
