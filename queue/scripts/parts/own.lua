-- The key NS:leases:INST of the daemon that a token (INST, a colon, a counter) belongs to: the
-- numbers of its leases, so that nobody has to read those of all daemons to find them.
local function own(token)
    return lease .. 's:' .. (token:match('^(.*):') or token)
end
