-- :results is a list; :results:stream is a stream.
local results_type = results:sub(-7) == ':stream' and 'stream' or 'list'
