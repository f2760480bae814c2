-- The crawl is over. Where nothing is outstanding, only what may still be of use is left, for as long as it is. What is
-- outstanding is kept for so long in one piece, so that the crawl can go on. Counts stay. Answers how much is outstanding.
local is_over, keeping, opening = argument() == '1', number(), number()
local counts = call('HMGET', base .. 'counts', 'admitted', 'completed', 'opening')
local left = tonumber(counts[1] or 0) - tonumber(counts[2] or 0)
-- It was opened again meanwhile: this comes too late.
if tonumber(counts[3] or 0) > opening then return left end
call('HSET', base .. 'counts', 'closed', 1)
if is_over and left == 0 then
  for_each(of_urls(), 'UNLINK')
  for_each(OF_LINKS, 'PEXPIRE', lifetime)
  for_each(OF_DOMAINS, 'PEXPIRE', math.max(domain_lifetime, 1))
  local longest = call('ZRANGE', base .. 'rests', 0, 0, 'REV', 'WITHSCORES')[2]
  for_each(OF_HOSTS, 'PEXPIRE', math.max(longest and tonumber(longest) - now or 0, HOUR))
else
  for _, names in ipairs({ of_urls(), OF_LINKS, OF_DOMAINS, OF_HOSTS }) do for_each(names, 'PEXPIRE', keeping) end
end
return left
