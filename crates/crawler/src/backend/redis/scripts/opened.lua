-- The crawl was opened so often: whoever is about to close an earlier opening comes too late.
local opening = number()
if opening > tonumber(call('HGET', base .. 'counts', 'opening') or 0) then call('HSET', base .. 'counts', 'opening', opening) end
