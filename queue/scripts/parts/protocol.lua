-- Programs of different protocols in one namespace (PROTOCOL.md, Compatibility). NS:protocol has the
-- least protocol that programs must know to work there; 1 if there is no such key.
-- PROTOCOL: the newest protocol that this program knows. PROTOCOL_LEAST: the oldest protocol whose
-- programs can work beside it.
local PROTOCOL, PROTOCOL_LEAST = 1, 1
-- Returns the error to reply if this program must not work in the namespace, else nil. joins: a
-- daemon calls, which may raise NS:protocol if no other daemon is there.
local function protocol_refusal(ns, joins)
    local key = ns .. ':protocol'
    local found = redis.pcall('GET', key)
    if type(found) == 'table' then return wrong_type(key, 'string') or found end
    local least = tonumber(found or 1)
    if not least or least > PROTOCOL then
        return redis.error_reply('PROTOCOL ' .. key .. ' is ' .. found .. ', but this program knows '
            .. 'only protocol ' .. PROTOCOL .. '; upgrade this program')
    end
    if least >= PROTOCOL_LEAST then return end
    if not joins then
        return redis.error_reply('PROTOCOL this program needs ' .. key .. ' ' .. PROTOCOL_LEAST
            .. ', but it is ' .. least .. '; upgrade the daemons first')
    end
    local alive = redis.call('ZCOUNT', ns .. ':inst', redis.call('TIME')[1] * 1000, '+inf')
    local leased = redis.call('ZCARD', ns .. ':lease')
    if alive + leased > 0 then
        return redis.error_reply('PROTOCOL this program cannot work beside the ' .. alive
            .. ' daemons of an older protocol in ' .. ns .. ', which have ' .. leased
            .. ' jobs; it waits until they have ended')
    end
    -- DEL first: a Redis over maxmemory permits SET only after it.
    redis.call('DEL', key)
    redis.call('SET', key, PROTOCOL_LEAST)
end
