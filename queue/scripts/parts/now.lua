-- Redis's clock, in milliseconds: the only one that counts.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
