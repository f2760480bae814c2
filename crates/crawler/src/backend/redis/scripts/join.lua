-- Takes a place in the crew: the one asked for, or the first that is free. Whoever is there already keeps it, unless
-- it is known to be dead. Answers what came of it, the place, and who is or was there.
local before = answered()
if before then return before end
local wanted, token, where, dead, heard = argument(), argument(), argument(), argument(), argument()
local name = wanted
if wanted == '' then
  local number = 0
  while call('HEXISTS', base .. 'members', tostring(number)) == 1 do number = number + 1 end
  name = tostring(number)
end
local member = member_of(name)
if member and member.token ~= token then
  -- What it had is on its way back.
  if member.dead then return { 'leaving', name, member.where, member.token, member.heard } end
  -- One that was heard of since is not dead after all.
  local is_dead = member.token == dead and ('%.0f'):format(member.heard) == heard
  if not is_dead then return { 'taken', name, member.where, member.token, member.heard } end
end
write_member(name, { token = token, heard = now, where = where })
return answer({ member and 'again' or 'new', name, member and member.where or '', token, now })
