-- Takes a role, or the first number of a worker that is free, unless another process has it that is not known to be dead.
local role, token, location, dead, heartbeat = unpack(ARGV)
if role == '' then
  local number, member = 0, member_of('0')
  while member and member.token ~= token do number, member = number + 1, member_of(tostring(number + 1)) end
  role = tostring(number)
end
local member = member_of(role)
if member and member.token ~= token then
  local is_dead = member.token == dead and heartbeat_of(member) == heartbeat
  if member.dead or not is_dead then
    return { member.dead and 'leaving' or 'taken', role, member.location, member.token, member.heartbeat }
  end
end
-- Later processes have later times, also if Redis's clock was set back.
local joined = math.max(now, tonumber(call('HGET', base .. 'crawl', 'joined') or 0) + 1)
call('HSET', base .. 'crawl', 'joined', ('%.0f'):format(joined))
write_member(role, { token = token, heartbeat = now, location = location })
return { 'joined', role, location, token, joined }
