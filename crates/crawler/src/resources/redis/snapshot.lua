-- How things stand in this partition, at one moment.
local queues = number()
local filed, workers = {}, {}
for queue = 0, queues - 1 do filed[queue + 1] = call('LLEN', base .. 'filed:' .. queue) end
local lengths = call('HGETALL', base .. 'lengths')
for i = 1, #lengths, 2 do
  local queued = tonumber(lengths[i + 1])
  workers[#workers + 1] = { lengths[i], queued, call('XLEN', base .. 'queue:' .. lengths[i]) - queued }
end
local known = call('HLEN', base .. 'outstanding') + tonumber(call('HGET', base .. 'counts', 'links') or 0)
return {
  call('HGETALL', base .. 'counts'), call('HGETALL', base .. 'outcomes'), call('HGETALL', base .. 'refused'),
  { urls_queued(), call('LLEN', base .. 'overflow') }, filed, workers, call('LLEN', base .. 'returned'),
  call('ZCOUNT', base .. 'lapses', '(' .. ('%.0f'):format(now), '+inf'), call('HLEN', base .. 'active'), known,
}
