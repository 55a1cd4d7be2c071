-- FORGET: deletes the results in :results:stream that every consumer group has acknowledged.
--
-- KEYS  1 results:stream
-- Reply the number of results that are left
--
-- Crash windows: one atomic step; a second call does no harm.
local stream = KEYS[1]

-- include parts/wrong_type.lua
local wrong = wrong_type(stream, 'stream')
if wrong then return wrong end

-- include parts/stream.lua
if redis.call('EXISTS', stream) == 0 then return 0 end
return forget_read(stream) or redis.call('XLEN', stream)
