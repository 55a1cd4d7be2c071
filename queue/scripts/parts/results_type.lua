-- :results is a list; :results:stream is a stream.
local is_stream = results:sub(-7) == ':stream'
