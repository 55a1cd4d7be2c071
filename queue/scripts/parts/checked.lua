-- Runs a command and sets `wrong` to the error to reply if its key has the wrong type. This saves a
-- TYPE for commands that the script needs anyway. Scripts check all keys before the first write.
local wrong
local function checked(kind, command, key, ...)
    local reply = redis.pcall(command, key, ...)
    if type(reply) == 'table' and reply.err then wrong = wrong or wrong_type(key, kind) or reply end
    return reply
end
