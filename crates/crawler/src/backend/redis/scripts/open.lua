-- Begins a partition, unless it was begun: its URL queue, and the queues of the workers that are there from the start.
-- What was closed stays as it is until it is reopened.
local workers = number()

-- Nothing is written where it is there already: whoever only looks is answered also while memory is full.
local function begin(queue, group)
  local groups = redis.pcall('XINFO', 'GROUPS', base .. queue)
  if groups.err or #groups == 0 then call('XGROUP', 'CREATE', base .. queue, group, '0', 'MKSTREAM') end
end

if call('HEXISTS', base .. 'counts', 'closed') == 1 then return end
begin('urls', 'prioritizer')
for worker = 0, workers - 1 do
  begin('queue:' .. worker, 'worker')
  call('HSETNX', base .. 'lengths', worker, 0)
end

-- One long value makes a table of a hash: what is looked up all the time is not to be searched from end to end.
for _, name in ipairs({ 'domains', 'popularity' }) do
  if call('HEXISTS', base .. name, '') == 0 then call('HSET', base .. name, '', long('')) end
end
