-- How things stand in this partition, at one moment.
local queues = number()
local filed, workers = {}, {}
for queue = 0, queues - 1 do filed[queue + 1] = call('LLEN', base .. 'filed:' .. queue) end
local function pending(worker)
  local answer = redis.pcall('XPENDING', base .. 'queue:' .. worker, 'worker')
  return answer.err and 0 or answer[1]
end

local lengths = call('HGETALL', base .. 'lengths')
for i = 1, #lengths, 2 do
  local queued = tonumber(lengths[i + 1])
  workers[#workers + 1] = { lengths[i], queued, pending(lengths[i]) }
end
local known = call('HLEN', base .. 'outstanding') + (call('HGET', base .. 'counts', 'links') or 0) + 0
return {
  call('HGETALL', base .. 'counts'), call('HGETALL', base .. 'outcomes'), call('HGETALL', base .. 'refused'),
  { urls_queued(), call('LLEN', base .. 'overflow') }, filed, workers, call('LLEN', base .. 'returned'),
  call('ZCOUNT', base .. 'lapses', '(' .. ('%d'):format(now), '+inf'), call('HLEN', base .. 'active'), known,
}
