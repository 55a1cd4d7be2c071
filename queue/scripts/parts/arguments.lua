-- Return the next key (index k) and the next argument (index a).
local function next_key()
    k = k + 1
    return KEYS[k - 1]
end
local function next_arg()
    a = a + 1
    return ARGV[a - 1]
end
