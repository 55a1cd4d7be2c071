-- The time of Redis, Unix ms. The protocol uses no other clock.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
