-- What the frontier looks at before it moves anything: URLs in the URL queue and its overflow, whether anything is
-- filed or returned, and the lengths of the workers' queues.
local queues = number()
local filed = call('LLEN', base .. 'returned')
for queue = 0, queues - 1 do filed = filed + call('LLEN', base .. 'filed:' .. queue) end
return { urls_queued() + call('LLEN', base .. 'overflow'), filed, call('HGETALL', base .. 'lengths') }
