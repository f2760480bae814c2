-- Stores a value beside the settings of a crawl, unless there is one; answers which is there. A crawl that is gone stays gone.
local name, value = argument(), argument()
if call('EXISTS', base .. 'settings') == 0 then return value end
call('HSETNX', base .. 'settings', name, value)
return call('HGET', base .. 'settings', name)
