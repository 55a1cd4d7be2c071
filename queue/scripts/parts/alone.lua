-- The right to run jobs alone: KEYS alone:owner, and alone:owner:fetch, the counter of the FETCH that
-- took or kept the right last. RENEW compares the counter, because Redis may run it late. Without the
-- second key, which an ACL may deny, it ends the right in any case.
-- These functions use no variables of the script: each captured variable costs FETCH time.
local function take_right(owner, me, lease_ms, counter)
    redis.call('SET', owner, me, 'PX', lease_ms)
    redis.pcall('SET', owner .. ':fetch', counter, 'PX', lease_ms)
end
local function end_right(owner)
    redis.call('DEL', owner)
    redis.pcall('DEL', owner .. ':fetch')
end
