-- One daemon watches :jobs, the others wait for a word in :wake (PROTOCOL.md, When idle). It has at
-- most one word, for the daemon that has waited longest. Keys of other types count as empty, and
-- are replaced.
local function watching_now()
    local name = redis.pcall('GET', watcher)
    return type(name) == 'string' and name
end
local function say(word)
    redis.call('DEL', wake)
    redis.call('LPUSH', wake, word)
end
-- Another daemon watches from now on: the one that takes the word.
local function pass_watch(lease_ms)
    redis.call('SET', watcher, '-', 'PX', lease_ms)
    say('watch')
end
