-- What the frontier looks at before it moves anything: URLs in the URL queue and its overflow, whether anything is
-- filed or returned, and the lengths of the workers' queues.
local filed = call('LLEN', base .. 'returned') + tonumber(call('HGET', base .. 'counts', 'filed') or 0)
return { urls_queued() + call('LLEN', base .. 'overflow'), filed, call('HGETALL', base .. 'lengths') }
