-- Stores a field of the statistics for a process, unless they were merged with those of others: they would count twice. A crawl
-- that is gone gets none, nor does a later one of its name from a process that took part in the crawl before.
local key, field, token = base .. 'statistics', ARGV[1], ARGV[2]
local is_known = call('HEXISTS', key, token) == 1
for _, member in ipairs(call('HVALS', base .. 'members')) do is_known = is_known or member == token end
if not is_known or call('HEXISTS', base .. 'crawl', 'phase') == 0 or call('HGET', key, field) == '' then return 0 end
call('HSET', key, field, ARGV[3])
return 1
