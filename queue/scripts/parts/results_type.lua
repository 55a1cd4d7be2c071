-- :results is a list; :results:stream is a stream.
local is_stream = results:sub(-7) == ':stream'
-- Returns the error to reply if :results cannot be used, else nil.
local function results_refusal()
    if not is_stream then return wrong_type(results, 'list') end
    local wrong = wrong_type(results, 'stream')
    if wrong or results_max <= 0 then return wrong end
    -- Trims nothing. If an ACL denies XTRIM, no result may be added.
    local none = redis.pcall('XTRIM', results, 'MINID', 0)
    return type(none) == 'table' and none or nil
end
