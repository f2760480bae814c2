-- A member lives. Answers whether it still has its place, and how the crawl is.
local name, token, elapsed = argument(), argument(), number()
local member = member_of(name)
local has_place = member and member.token == token and not member.dead
if has_place then
  member.heard = now
  write_member(name, member)
  if elapsed > 0 then call('HINCRBY', base .. 'crawl', 'elapsed', elapsed) end
end
return { has_place and 1 or 0, unpack(crawl()) }
