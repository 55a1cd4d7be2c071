-- Pushes a job to the list that it came from, or to :jobs if that list has another type or an
-- ACL denies it.
-- list: the priority of that list; false: :jobs.
local function push_back(push, list, entry)
    if not list or type(redis.pcall(push, jobs .. ':' .. list, entry)) == 'table' then
        redis.call(push, jobs, entry)
    end
end
