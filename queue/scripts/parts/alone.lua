-- The right to run jobs alone: KEYS alone:owner, and alone:owner:fetch, the counter of the FETCH that
-- took or kept the right last. RENEW compares the counter, because Redis may run it late. Without the
-- second key, which an ACL may deny, it ends the right in any case.
local function take_right(counter)
    redis.call('SET', owner, me, 'PX', lease_ms)
    redis.pcall('SET', owner .. ':fetch', counter, 'PX', lease_ms)
end
local function keep_right()
    redis.call('PEXPIRE', owner, lease_ms)
    redis.pcall('PEXPIRE', owner .. ':fetch', lease_ms)
end
local function end_right()
    redis.call('DEL', owner)
    redis.pcall('DEL', owner .. ':fetch')
end
-- Returns whether the FETCH with this counter, or an earlier one, took the right.
local function is_taken_by(counter)
    local last = redis.pcall('GET', owner .. ':fetch')
    return type(last) ~= 'string' or (tonumber(last) or 0) <= counter
end
