-- Stores a field of the statistics for a process, unless they were merged with those of others: they would count twice. A crawl
-- that is gone gets none, nor does a later one of its name from a process that took part in the crawl before.
local key, field, token = base .. 'statistics', ARGV[1], ARGV[2]
local phase = state()[1]
if phase == '' or phase == 'purged' then return 0 end
local function is_member()
  for _, entry in ipairs(call('HVALS', base .. 'members')) do
    if cmsgpack.unpack(entry).token == token then return true end
  end
end
if call('HEXISTS', key, token) == 0 and not is_member() then return 0 end
if call('HEXISTS', key, field) == 1 and call('HSTRLEN', key, field) == 0 then return 0 end
call('HSET', key, field, ARGV[3])
return 1
