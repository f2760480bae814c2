-- A member lives, and has URLs of so many domains in hand, if it takes any. Answers whether it still has its place, to whom
-- it is to pass on a part of what it has, and how the crawl is.
local name, token, elapsed, domains = argument(), argument(), number(), tonumber(argument())
local member = member_of(name)
local has_place = member and member.token == token and not member.dead
local takers = {}
if has_place then
  takers = member.takers or takers
  member.heard, member.domains, member.takers = now, domains, nil
  write_member(name, member)
  if elapsed > 0 then call('HINCRBY', base .. 'crawl', 'elapsed', elapsed) end
end
return { has_place and 1 or 0, takers, unpack(crawl()) }
