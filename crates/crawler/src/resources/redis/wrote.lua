-- Forgets what was recorded for the outputs up to a page.
local last = number()
for _, document in ipairs(call('HKEYS', base .. 'output')) do
  if tonumber(document) <= last then call('HDEL', base .. 'output', document) end
end
