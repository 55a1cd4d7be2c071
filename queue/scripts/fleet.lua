-- FLEET: reads the statistics of some daemons, in the order of their names. Writes nothing.
--
-- KEYS  1 inst
-- ARGV  1 index of the first daemon, from 0  2 number of daemons  3 most names to sort
--       4 longest statistics, bytes
-- Reply {the names in :inst, those of live daemons, the names that were sorted, then for each daemon
--       its INST, ms until its name expires (negative: it has not renewed it), ms until its
--       statistics expire (negative: there are none), the statistics, or "" if there are none or
--       they are too long}
--
-- Also reads :stats:INST of these daemons. If there are more names than ARGV 3, those that expire
-- first are sorted.
-- Crash windows: none.
local inst, first, count = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local ns, names = string.sub(inst, 1, -6), redis.call('ZRANGE', inst, 0, ARGV[3] - 1)

-- include parts/now.lua
table.sort(names)
local reply = {redis.call('ZCARD', inst), redis.call('ZCOUNT', inst, string.format('%.0f', now), '+inf'),
               #names}
for i = first + 1, math.min(first + count, #names) do
    local key = ns .. ':stats:' .. names[i]
    local size, left, text = redis.pcall('STRLEN', key), redis.pcall('PTTL', key), ''
    if type(left) ~= 'number' then left = -2 end
    if type(size) == 'number' and size <= tonumber(ARGV[4]) then text = redis.pcall('GET', key) end
    if type(text) ~= 'string' then text = '' end
    reply[#reply + 1] = names[i]
    reply[#reply + 1] = string.format('%.0f', redis.call('ZSCORE', inst, names[i]) - now)
    reply[#reply + 1] = left
    reply[#reply + 1] = text
end
return reply
