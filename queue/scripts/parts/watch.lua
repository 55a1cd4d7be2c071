-- One idle daemon, the watcher, waits for a push to :jobs. The others wait for a message in :wake
-- (PROTOCOL.md, When idle). That list has at most one message, for the daemon that has waited
-- longest. A key of another type is treated as empty and replaced.
local function watching_now()
    local name = redis.pcall('GET', watcher)
    return type(name) == 'string' and name
end
local function say(word)
    redis.call('DEL', wake)
    redis.call('LPUSH', wake, word)
end
-- Passes the watch to the daemon that takes the message.
local function pass_watch(lease_ms)
    redis.call('SET', watcher, '-', 'PX', lease_ms)
    say('watch')
end
