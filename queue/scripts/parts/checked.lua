-- Runs a command whose reply the script needs and which also tells whether the key has its type:
-- that costs no TYPE. `wrong` is the error to reply, if there is one. A script checks each key that
-- it will write before it writes.
local wrong
local function checked(kind, command, key, ...)
    local reply = redis.pcall(command, key, ...)
    if type(reply) == 'table' and reply.err then wrong = wrong or wrong_type(key, kind) or reply end
    return reply
end
