-- Begins a crawl, or returns the settings of the one of this name. A process with the same settings may raise the budgets.
local key, call = KEYS[1] .. 'settings', redis.call
local is_new, agrees, raised = call('EXISTS', key) == 0, true, {}
for i = 1, #ARGV, 3 do
  local name, value, kind, stored = ARGV[i], ARGV[i + 1], ARGV[i + 2], call('HGET', key, ARGV[i])
  -- Budgets are compared as texts: Lua's numbers are not exact enough.
  if is_new then call('HSET', key, name, value)
  elseif kind == 'budget' and stored and (#value > #stored or #value == #stored and value > stored) then
    raised[#raised + 1], raised[#raised + 2] = name, value
  elseif kind ~= 'first' and stored ~= value then agrees = false end
end
if agrees and #raised > 0 then call('HSET', key, unpack(raised)) end
return call('HGETALL', key)
