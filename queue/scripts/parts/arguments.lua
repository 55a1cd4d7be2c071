-- KEYS and ARGV in turn, from k and a on.
local function next_key()
    k = k + 1
    return KEYS[k - 1]
end
local function next_arg()
    a = a + 1
    return ARGV[a - 1]
end
