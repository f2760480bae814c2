-- Begins a crawl with these settings, or joins the one that was begun under its name; who means the same by it may raise
-- its budgets. Answers the settings that it has now.
local function is_larger(one, other)  -- they have more digits than Lua's numbers are exact to
  return #one > #other or #one == #other and one > other
end

local settings, raised = {}, {}
local is_new, agrees = call('EXISTS', base .. 'settings') == 0, true
for _ = 1, number() do
  local name, value, kind = argument(), argument(), argument()
  local theirs = not is_new and call('HGET', base .. 'settings', name)
  settings[#settings + 1], settings[#settings + 2] = name, value
  if theirs and kind == 'budget' then
    agrees = agrees and not is_larger(theirs, value)
    if theirs ~= value then raised[#raised + 1], raised[#raised + 2] = name, value end
  elseif kind == 'fixed' then
    agrees = agrees and theirs == value
  end
end
if is_new then
  call('HSET', base .. 'settings', unpack(settings))
elseif agrees and #raised > 0 then
  call('HSET', base .. 'settings', unpack(raised))
end
return call('HGETALL', base .. 'settings')
