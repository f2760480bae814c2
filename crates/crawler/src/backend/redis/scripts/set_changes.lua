-- Stores what was changed while the crawl runs, unless another process has changed something since, or the crawl is over.
local current, key = state(), base .. 'crawl'
if current[1] ~= 'seeding' and current[1] ~= 'running' then return 'over' end
if current[7] ~= tonumber(ARGV[1]) then return 'outdated' end
call('HSET', key, 'changes', ARGV[2])
call('HINCRBY', key, 'live', 1)
return 'stored'
