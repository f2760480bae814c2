-- Begins a partition, unless it was begun: its URL queue, and the queues of the workers that are there from the start.
-- What was closed stays as it is until it is reopened.
local workers = number()
if call('HEXISTS', base .. 'counts', 'closed') == 1 then return end
redis.pcall('XGROUP', 'CREATE', base .. 'urls', 'prioritizer', '0', 'MKSTREAM')
for worker = 0, workers - 1 do
  redis.pcall('XGROUP', 'CREATE', base .. 'queue:' .. worker, 'worker', '0', 'MKSTREAM')
  call('HSETNX', base .. 'lengths', worker, 0)
end
