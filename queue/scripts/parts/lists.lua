-- The lists of jobs: :jobs, and :jobs:0 to :jobs:9 for jobs with a priority (9 is the most urgent).
-- A job's hash has the priority of its list as the field `list`; a job of :jobs has no such field.
-- Returns the keys of the lists with a priority, the most urgent first.
local function priority_lists()
    local name = jobs .. ':'
    return {name .. '9', name .. '8', name .. '7', name .. '6', name .. '5', name .. '4',
            name .. '3', name .. '2', name .. '1', name .. '0'}
end
-- Returns how many of the keys exist; 1 if an ACL denies a key: the caller must then try each list.
local function existing(...)
    local count = redis.pcall('EXISTS', ...)
    return type(count) == 'number' and count or 1
end
