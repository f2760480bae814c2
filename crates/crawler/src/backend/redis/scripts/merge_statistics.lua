-- Replaces the statistics of processes that are gone by their sum with those that were merged before.
local key = base .. 'statistics'
for i = 2, #ARGV do
  if (call('HGET', key, ARGV[i]) or '') == '' then return 0 end
end
call('HSET', key, 'merged', ARGV[1])
for i = 2, #ARGV do call('HSET', key, ARGV[i], '') end
return 1
