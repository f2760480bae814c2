-- Stores the statistics of a process, unless they were merged with those of others: they would count twice.
local key = base .. 'statistics'
if call('HGET', key, ARGV[1]) ~= '' then call('HSET', key, ARGV[1], ARGV[2]) end
