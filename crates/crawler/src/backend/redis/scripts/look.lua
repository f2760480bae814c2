-- What the frontier looks at before it moves anything: URLs in the URL queue and its overflow, URLs that are filed or
-- returned, URLs outstanding, and the lengths of the workers' queues. It is asked often, and needs nothing else.
local counts = call('HMGET', base .. 'counts', 'filed', 'admitted', 'completed')
for i = 1, 3 do counts[i] = tonumber(counts[i] or 0) end
local urls = call('XLEN', base .. 'urls') - call('HLEN', base .. 'prioritizing') + call('LLEN', base .. 'overflow')
return {
  urls, call('LLEN', base .. 'returned') + counts[1], counts[2] - counts[3],
  call('HGETALL', base .. 'lengths'),
}
