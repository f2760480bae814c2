-- Takes back a page that turned out to be like another, as far as that is here: what it was filed under, and itself.
local GENERATIONS = 12
local lifetime, url, id, exact = number(), argument(), argument(), argument()
if exact ~= '' and (call('GET', base .. 'exact:' .. exact) or ''):sub(17) == url then
  call('DEL', base .. 'exact:' .. exact)
end
local before = id ~= '' and call('GET', base .. 'page:' .. id)
if before then
  local generation = math.floor(tonumber(before:sub(1, 16)) / math.ceil(lifetime / GENERATIONS))
  call('HINCRBY', base .. 'stored', generation .. ' pages', -1)
  call('HINCRBY', base .. 'stored', generation .. ' bytes', 0 - math.max(0, call('STRLEN', base .. 'body:' .. id) - 1))
end
if id ~= '' then call('DEL', base .. 'page:' .. id, base .. 'body:' .. id) end
