-- DEAD: reads dead jobs and their errors. Called by clients, not by daemons.
--
-- KEYS  1 dead; in a Cluster also never
-- ARGV  1 index of the first job, from 0  2 number of jobs
-- Reply for each job its text, and its error record or ""
--
-- Also reads KEYS 1 .. ":errors". Crash windows: none; it writes nothing.
local dead, first = KEYS[1], tonumber(ARGV[1])
local last = first + tonumber(ARGV[2]) - 1

-- include parts/dead_error.lua
local found, reply = errors_around(dead .. ':errors', first, last), {}
for i, text in ipairs(redis.call('LRANGE', dead, first, last)) do
    reply[#reply + 1] = text
    reply[#reply + 1] = error_of(found, text, first + i - 1) or ''
end
return reply
