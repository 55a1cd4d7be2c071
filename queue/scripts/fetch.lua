-- FETCH: makes due jobs ready, then leases up to `places` jobs to one daemon. Does neither while
-- `paused` exists.
--
-- KEYS  1 jobs  2 delayed  3 alone  4 alone:owner  5 lease  6 inst  7 seq  8 cancel  9 paused
--       10 watcher  11 wake  12 woken
-- ARGV  1 namespace  2 INST  3 fetch counter  4 places  5 lease, ms  6 attempts  7 largest text of
--       a job to send, bytes  8 may this daemon run jobs alone (1, 0)  9 number of jobs that
--       must end before one runs alone  10 its role while idle: watch, wait (for a message in
--       :wake) or none
-- Reply {jobs left in all lists, ms until the next delayed job (-1: none), entries dropped,
--       1 if this daemon has the right to run alone, the highest job number that a cancel can apply
--       to (-1: none), 1 if paused, 1 if this daemon is the watcher of :jobs (2: and the only
--       daemon), the jobs left in :jobs:0 to :jobs:9 (-1: a key of another type, or denied, is
--       skipped; empty: there is no such list), the priorities of the leases as one text, - for
--       :jobs, the last job number (every job that was taken for the first time raises it by one;
--       -1 while paused), then for each lease number, attempt, text (if it is longer than ARGV 7:
--       {its length, its first bytes})}
--
-- An entry `@cancel:SERIAL:ID` is a fence, which CANCEL pushed after all jobs that waited then.
-- When it is taken, the cancel with that serial applies to the job numbers up to now (see
-- cancel.lua).
-- Also takes jobs from KEYS 1 .. ":0" to ":9" (parts/shares.lua), and keeps its positions in
-- NS:shares. Reads, and may set, NS:protocol (parts/protocol.lua); so do RENEW and REAP.
-- Woken jobs (parts/wake.lua) are moved to :jobs here. A call moves half as many woken jobs as it
-- may lease, so that a million of them do not block other jobs. It moves more while :jobs is short.
-- If an ACL denies a command or a key, no job is taken: entries leave their lists last, after their
-- leases are stored.
-- Crash windows: one atomic step. If the reply is lost, the daemon does not know its leases, and
-- RESUME gives them back with their attempt. If the daemon dies, they expire (REAP).
local jobs, delayed, alone, owner, lease, inst, seq, cancel, paused, watcher, wake, woken =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10],
    KEYS[11], KEYS[12]
local ns, me, token = ARGV[1], ARGV[2], ARGV[2] .. ':' .. ARGV[3]
local places, lease_ms, attempts, bytes_max =
    tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

-- include parts/wrong_type.lua
-- include parts/protocol.lua
local unsuited = protocol_refusal(ns, true)
if unsuited then return unsuited end
-- include parts/checked.lua
-- include parts/lists.lua
-- include parts/shares.lua
-- include parts/horizon.lua
local waiting = checked('list', 'LLEN', jobs)
local waiting_alone = checked('list', 'LLEN', alone)
local next_due = checked('zset', 'ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local holder = checked('string', 'GET', owner)
local counter = checked('string', 'GET', seq)
local over, is_paused, is_waking, refusal = -1, false, false, nil
local lists, has_lists = priority_lists(), false
if existing(cancel, paused, woken, unpack(lists)) > 0 then
    has_lists = existing(unpack(lists)) > 0
    over, refusal = horizon(cancel)
    wrong = wrong or refusal
    is_paused = redis.call('EXISTS', paused) == 1
    is_waking = checked('list', 'LLEN', woken) ~= 0
end
-- The first write: it only frees memory (here: none), which a Redis over maxmemory permits.
checked('zset', 'ZREM', lease, '')
if wrong then return wrong end
if counter and not (counter:match('^%d+$') and #counter <= 15) then
    return redis.error_reply('WRONGTYPE ' .. seq .. ' is not a number of at most 15 digits')
end

-- include parts/now.lua
local expiry = string.format('%.0f', now + lease_ms)
checked('zset', 'ZADD', inst, expiry, me)
if wrong then return wrong end

-- include parts/alone.lua
if is_paused then
    if holder == me then end_right(owner) end
    local lengths = has_lists and select(3, open_sources(lists)) or {}
    for _, length in ipairs(lengths) do waiting = waiting + math.max(0, length) end
    return {waiting, -1, 0, 0, over, 1, ARGV[10] == 'watch' and 1 or 0, lengths, '', -1}
end

local dropped = 0
-- Returns the attempts that a job has used; nil if there is no such job in that state.
local function used(number, state)
    local key = ns .. ':job:' .. number
    local job = redis.pcall('HMGET', key, 'state', 'attempt')
    if is_mistyped(job) or job[1] ~= state or redis.call('HEXISTS', key, 'raw') == 0 then
        dropped = dropped + 1
        return nil
    end
    return tonumber(job[2]) or 0
end

-- include parts/push_back.lua
-- Makes a job ready. A job with one attempt left goes to :alone instead if `crashed` is set
-- (parts/requeue.lua).
local function ready(number, attempt, push, list, crashed)
    local alone_next = crashed and attempt >= 1 and attempts - attempt <= 1
    if alone_next then
        waiting_alone = redis.call('LPUSH', alone, number)
    else
        push_back(push, list, '@' .. number)
        has_lists = has_lists or list
    end
    redis.call('HSET', ns .. ':job:' .. number, 'state', alone_next and 'alone' or 'ready')
end
-- include parts/woken.lua

-- Due jobs go to the right end of their lists, from which jobs are taken. The longest due job goes
-- last, so that it is taken first. Followers, which waited for the first job with their id, go to
-- the left end, because there may be many. Each job is removed from its NS:waits:ID.
local due = {}
if next_due and tonumber(next_due) <= now then
    due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now),
                     'LIMIT', 0, math.max(places, 64))
end
for i = #due, 1, -1 do
    local attempt = used(due[i], 'delayed')
    local waits =
        attempt and redis.call('HMGET', ns .. ':job:' .. due[i], 'waits', 'follows', 'list',
                               'crashed')
    if waits then
        ready(due[i], attempt, waits[1] and waits[2] and 'LPUSH' or 'RPUSH', waits[3], waits[4])
    end
    if waits and waits[1] then
        redis.pcall('SREM', ns .. ':waits:' .. waits[1], due[i])
        redis.call('HDEL', ns .. ':job:' .. due[i], 'waits')
    end
    redis.call('ZREM', delayed, due[i])
end

-- include parts/own.lua
-- include parts/own_add.lua
-- include parts/text.lua
-- Leases a job. raw: the text of a new job, whose number this call has assigned. list: the priority
-- of the job's list; nil for :jobs.
local reply, mine, ends, from = {0, 0, 0, 0, 0, 0, 0, {}, '', 0}, {}, {}, {}
local head = #reply
local function take(number, attempt, raw, list)
    local job = ns .. ':job:' .. number
    local count, last = #mine, #reply
    mine[count + 1], reply[last + 1], reply[last + 2] = number, number, attempt
    if raw then
        redis.call('HSET', job, 'raw', raw, 'state', 'leased', 'token', token, 'owner', me,
                   'attempt', attempt)
    else
        redis.call('HSET', job, 'state', 'leased', 'token', token, 'owner', me, 'attempt', attempt)
    end
    if list then redis.call('HSET', job, 'list', list) end
    from[count + 1] = list or '-'
    ends[2 * count + 1], ends[2 * count + 2] = expiry, number
    reply[last + 3] = text_of(job, raw, bytes_max)
end

-- For each list, how many entries at its right end this call takes.
local taken = {}

local function take_alone()
    while true do
        local number = redis.call('LINDEX', alone, -1 - (taken[alone] or 0))
        if not number then return false end
        taken[alone] = (taken[alone] or 0) + 1
        local attempt = used(number, 'alone')
        if attempt then
            take(number, attempt + 1)
            return true
        end
    end
end

local claimed = false

-- Skips numbers in use: somebody may have deleted or lowered :seq.
local assigned, last_number = {}, tonumber(counter or 0)
local function new_numbers(count)
    local numbers = {}
    while #numbers < count do
        local missing, some, keys = count - #numbers, {}, {}
        local last = redis.call('INCRBY', seq, missing)
        last_number = last
        for i = 1, missing do
            some[i] = string.format('%.0f', last - missing + i)
            keys[i] = ns .. ':job:' .. some[i]
        end
        local free = redis.call('EXISTS', unpack(keys)) == 0
        for i = 1, missing do
            if free or redis.call('EXISTS', keys[i]) == 0 then numbers[#numbers + 1] = some[i] end
        end
    end
    assigned[#assigned + 1] = numbers
    return numbers
end

-- From now on the cancel applies to the numbers up to `last`, the last one that was assigned.
local function pass_fence(member, serial, last)
    local score = redis.call('ZSCORE', cancel, member)
    if score and (not serial or string.format('%.0f', score) == serial) then
        redis.call('ZADD', cancel, last, member)
    end
end

-- Leases the jobs of up to `count` entries of a list, from its right end. Returns their number.
local function take_entries(key, count, list)
    local before = taken[key] or 0
    local entries = redis.call('LRANGE', key, -before - count, -before - 1)
    if #entries == 0 then return 0 end
    taken[key] = before + #entries
    local named, fences, fresh, last = {}, {}, 0, 0
    for i = #entries, 1, -1 do
        local entry = entries[i]
        if entry:byte() == 64 then -- '@'
            named[i] = #entry <= 17 and entry:match('^@(%d+)$')
            fences[i] = entry:match('^@cancel:(%d+):.')
        end
        if fences[i] then
            last = redis.call('GET', seq) or 0
        elseif not named[i] then
            fresh = fresh + 1
        end
    end
    local numbers, next_fresh = new_numbers(fresh), 1
    for i = #entries, 1, -1 do
        local entry = entries[i]
        if fences[i] then
            local id = entry:match(':.-:(.*)')
            pass_fence(list and id .. '\n' .. list or id, fences[i],
                       numbers[next_fresh - 1] or last)
        elseif named[i] then
            local attempt = used(named[i], 'ready')
            if attempt then take(named[i], attempt + 1, nil, list) end
        else
            take(numbers[next_fresh], 1, entry, list)
            next_fresh = next_fresh + 1
        end
    end
    return #entries
end

-- The number of forged entries that a call drops is bounded, so that no call takes long.
local pops
-- Takes entries of all lists. Returns the jobs left.
local function take_shares()
    local shares, left = ns .. ':shares', 0
    local positions = redis.pcall('GET', shares)
    local sources, kept, lengths = open_sources(lists, positions)
    local popped = true
    while #mine < places and pops > 0 and popped do
        popped = false
        share(sources, math.min(places - #mine, pops))
        for _, source in ipairs(sources) do
            if source.count > 0 then
                -- Trims nothing: this list may be readable only.
                if source.list then redis.call('LTRIM', source.key, 0, -1) end
                pops = pops - take_entries(source.key, source.count, source.list or nil)
                source.count, popped = 0, true
            end
        end
    end
    local positions_next = close_sources(sources, kept)
    if positions_next then
        redis.pcall('SET', shares, positions_next)
    elseif positions then
        redis.pcall('DEL', shares)
    end
    for _, source in ipairs(sources) do
        left = left + source.left
        if source.list then lengths[tonumber(source.list) + 1] = source.left end
    end
    reply[8] = lengths
    return left
end

local left
-- include parts/watch.lua
-- If jobs are left, wakes one more daemon. A watcher that takes the last job passes the watch on,
-- so that jobs go to all daemons in turn. If there is no watcher, a daemon that finds no job
-- becomes it.
local function settle_watch()
    local word = left > 0 and redis.pcall('LINDEX', wake, 0)
    if word == 'fetch' and ARGV[10] ~= 'watch' then return 0 end
    local watching = watching_now()
    local mine_to_settle = not watching or watching == me
        or (watching == '-' and ARGV[10] == 'watch')
    if left > 0 then
        local unheard = watching == '-' and word == 'watch'
        if mine_to_settle or unheard then redis.call('DEL', watcher) end
        if word ~= 'fetch' then say('fetch') end
        return 0
    end
    if not mine_to_settle then return 0 end
    local busy = claimed or #mine > 0
    local others = redis.call('ZCOUNT', inst, string.format('%.0f', now), '+inf') > 1
    if ARGV[10] == 'wait' or (busy and others) then
        pass_watch(lease_ms)
        return 0
    end
    redis.call('SET', watcher, me, 'PX', lease_ms)
    if watching ~= me then redis.call('DEL', wake) end
    return others and 1 or 2
end

-- From here on, an error must not end the script: jobs would be leased and still be in their lists.
-- So this runs each command or function, unless an earlier one failed. Returns its first value, or
-- nil.
local failure
local function try(step, ...)
    if failure then return nil end
    local good, result = pcall(step, ...)
    if good then return result end
    failure = result
end

if ARGV[8] == '1' and (holder == me or (not holder and waiting_alone > 0)) then
    claimed = tonumber(ARGV[9]) > 0 or (places > 0 and try(take_alone)) or false
end
if claimed then
    try(take_right, owner, me, lease_ms, ARGV[3])
elseif holder == me then
    try(end_right, owner)
end
if is_waking and not claimed then
    try(move_woken, math.ceil(places / 2) + math.max(0, 64 - redis.call('LLEN', jobs)))
end
pops = claimed and 0 or 2 * places + 64
if has_lists then
    left = try(take_shares)
else
    local count = 1
    while #mine < places and pops > 0 and count > 0 do
        count = try(take_entries, jobs, math.min(places - #mine, pops)) or 0
        pops = pops - count
    end
    left = redis.call('LLEN', jobs) - (taken[jobs] or 0)
end
if over >= 0 then
-- include parts/forget_cancels.lua
    try(forget_cancels, cancel, 0)
    over = horizon(cancel)
    -- If all lists are empty, all jobs before each fence were taken, even if a fence was lost.
    local fenced = left == 0 and over >= FENCED
        and try(redis.call, 'ZRANGEBYSCORE', cancel, FENCED, '+inf', 'LIMIT', 0, 64) or {}
    for _, member in ipairs(fenced) do
        try(pass_fence, member, nil, redis.call('GET', seq) or 0)
    end
end
local watches = try(settle_watch)
if #mine > 0 then
    try(own_add, token, mine)
    -- Redis keeps a small sorted set of short members in one list, in which it compares each new
    -- member with the others: 2 us per job. After a long member the set is a skip list, until it is
    -- empty.
    local long = #mine >= 8 and string.rep('-', 65)
    if long then try(redis.call, 'ZADD', lease, expiry, long) end
    try(redis.call, 'ZADD', lease, unpack(ends))
    if long then try(redis.call, 'ZREM', lease, long) end
end

-- LTRIM comes last: if Redis denies it, the leases are removed again. Redis permits it for all of
-- these lists or for none.
for key, count in pairs(taken) do try(redis.call, 'LTRIM', key, 0, -1 - count) end
if failure then
    -- Removes what was written. Each of these commands has succeeded in this call, or only frees
    -- memory.
    local fresh = {}
    for _, numbers in ipairs(assigned) do
        for _, number in ipairs(numbers) do
            fresh[number] = true
            redis.pcall('HDEL', ns .. ':job:' .. number, 'raw', 'state', 'token', 'owner',
                        'attempt', 'list')
        end
    end
    for i, number in ipairs(mine) do
        if not fresh[number] then
            redis.pcall('HSET', ns .. ':job:' .. number, 'attempt', reply[head + 3 * i - 1] - 1,
                        'state', taken[alone] and 'alone' or 'ready')
        end
    end
    redis.pcall('ZREM', lease, '', unpack(mine))
    return type(failure) == 'table' and failure or redis.error_reply(failure)
end

if is_waking or #due > 0 then
    next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
end
local due_ms = next_due and math.max(0, next_due - now) or -1
if is_waking and redis.call('EXISTS', woken) == 1 then due_ms = 0 end
reply[1], reply[2], reply[3], reply[4] = left, due_ms, dropped, claimed and 1 or 0
reply[5], reply[7], reply[9], reply[10] = over, watches, table.concat(from), last_number
return reply
