-- DEAD: reads dead jobs, and why they died. Of those who look after jobs: no daemon calls it.
--
-- KEYS  1 dead, and in a Cluster never
-- ARGV  1 the place of the first one, from 0  2 how many
-- Reply for each the job's text and the record of its error, or "" where there is none
--
-- Reads KEYS 1 .. ":errors", too. Crash windows: it writes nothing.
local dead, first = KEYS[1], tonumber(ARGV[1])
local last = first + tonumber(ARGV[2]) - 1

-- include parts/dead_error.lua
local found, reply = errors_around(dead .. ':errors', first, last), {}
for i, text in ipairs(redis.call('LRANGE', dead, first, last)) do
    reply[#reply + 1] = text
    reply[#reply + 1] = error_of(found, text, first + i - 1) or ''
end
return reply
