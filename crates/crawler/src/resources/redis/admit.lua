-- Admits URLs of this partition's domains: each that is new to link storage is remembered and queued in one step; one
-- that is known has its depth lowered if it was met nearer. And counts a page for each domain that it links to.
-- Answers how many were new, and how many were known.
local before = answered()
if before then return before end
local MOST_DOMAINS = 200000  -- in a partition's count of who links to them

-- When there is no room for more domains, the others still count.
local counted = call('HLEN', base .. 'popularity')
for _ = 1, number() do
  local domain = argument()
  if counted < MOST_DOMAINS or call('HEXISTS', base .. 'popularity', domain) == 1 then
    call('HINCRBY', base .. 'popularity', domain, 1)
  end
end

local new, known = 0, 0

for _ = 1, number() do
  local id, depth, redirects = argument(), number(), number()
  local domain, host, url = argument(), argument(), argument()
  local ticket, smallest = outstanding(id)
  if ticket then
    known = known + 1
    if keeps_depths and depth < smallest then
      call('HSET', base .. 'outstanding', id, ticket .. ' ' .. depth)
    end
  else
    local which
    which, smallest = find_link(id)
    if not which then
      new = new + 1
      admit(id, depth, redirects, 0, domain, host, url)
    else
      known = known + 1
      if keeps_depths and depth < smallest then
        forget_link(id, which)
        admit(id, depth, redirects, 1, domain, host, url)
      elseif which ~= generation then
        forget_link(id, which)
        keep_link(id, smallest)
      end
    end
  end
end
write_admitted()
return answer({ new, known })
