-- Returns the key NS:leases:INST of the daemon that owns a token (INST, a colon, a counter). The
-- set has the job numbers of its leases, so that no script reads the leases of all daemons.
local function own(token)
    return lease .. 's:' .. (token:match('^(.*):') or token)
end
