-- Begins a partition, unless it was begun: its URL queue, and the queues of the workers that are there from the start.
redis.pcall('XGROUP', 'CREATE', base .. 'urls', 'prioritizer', '0', 'MKSTREAM')
for worker = 0, number() - 1 do
  redis.pcall('XGROUP', 'CREATE', base .. 'queue:' .. worker, 'worker', '0', 'MKSTREAM')
  call('HSETNX', base .. 'lengths', worker, 0)
end
