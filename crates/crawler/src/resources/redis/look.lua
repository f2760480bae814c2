-- What the frontier looks at before it moves anything: URLs in the URL queue and its overflow, URLs that are filed or
-- returned, URLs outstanding, and the lengths of the workers' queues.
local counts = call('HMGET', base .. 'counts', 'filed', 'admitted', 'completed')
for i = 1, 3 do counts[i] = tonumber(counts[i] or 0) end
return {
  urls_queued() + call('LLEN', base .. 'overflow'), call('LLEN', base .. 'returned') + counts[1], counts[2] - counts[3],
  call('HGETALL', base .. 'lengths'),
}
