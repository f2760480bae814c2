-- A crawl that was closed goes on: what it had left stays. What has expired meanwhile was not reached before the end.
-- Answers 1 if it has, and something may be left of it that means nothing any more; 0 if not.
local has_expired = 0
if call('HDEL', base .. 'counts', 'closed') == 1 then
  local counts = call('HMGET', base .. 'counts', 'admitted', 'completed')
  local left = tonumber(counts[1] or 0) - tonumber(counts[2] or 0)
  if left > 0 and call('EXISTS', base .. 'outstanding') == 0 then
    has_expired = 1
    for_each(of_urls(), 'UNLINK')
    for_each(OF_DOMAINS, 'UNLINK')
    call('HDEL', base .. 'counts', 'filed', 'waiting')
    call('HINCRBY', base .. 'counts', 'completed', left)
    call('HINCRBY', base .. 'outcomes', 'not reached', left)
  end
  -- The first shard expires with the others.
  if call('EXISTS', base .. 'links:0') == 0 then call('HDEL', base .. 'counts', 'links') end
  for _, names in ipairs({ of_urls(), OF_LINKS, OF_DOMAINS, OF_HOSTS }) do for_each(names, 'PERSIST') end
end
return has_expired
