-- How many pages are stored, and the bytes they take; those are counted by the part of a lifetime in which they expire.
local GENERATIONS = 12
local lifetime = number()
local generation = math.floor(now / math.ceil(lifetime / GENERATIONS))
local totals = { pages = 0, bytes = 0 }
local stored = call('HGETALL', base .. 'stored')
for i = 1, #stored, 2 do
  local when, what = stored[i]:match('^(%d+) (%a+)$')
  if tonumber(when) < generation then
    call('HDEL', base .. 'stored', stored[i])
  else
    totals[what] = totals[what] + tonumber(stored[i + 1])
  end
end
return { totals.pages, totals.bytes }
