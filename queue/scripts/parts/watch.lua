-- One daemon watches :jobs, the others wait for a word in :wake (PROTOCOL.md, When idle). It has at
-- most one word, for the daemon that has waited longest.
local function say(word)
    redis.call('DEL', wake)
    redis.call('LPUSH', wake, word)
end
-- Another daemon watches from now on: the one that takes the word.
local function pass_watch(lease_ms)
    redis.call('SET', watcher, '-', 'PX', lease_ms)
    say('watch')
end
