-- Takes a role, or the first number of a worker that is free, unless another process has it that is not known to be dead.
local role, token, location, dead, dead_heartbeat = unpack(ARGV)
-- A process of a crawl that was purged, which would leave keys behind.
if call('HEXISTS', base .. 'crawl', 'phase') == 0 then return { '', 0 } end
local function member_of(role) return call('HGET', base .. 'members', role) or token end
if role == '' then
  local number = 0
  while member_of(tostring(number)) ~= token do number = number + 1 end
  role = tostring(number)
end
if member_of(role) ~= token and (member_of(role) ~= dead or call('HGET', base .. 'heartbeats', role) ~= dead_heartbeat) then
  return { role, 0 }
end
-- Later processes have later times, also if Redis's clock was set back.
local joined = math.max(tonumber(now), tonumber(call('HGET', base .. 'crawl', 'joined') or 0) + 1)
call('HSET', base .. 'crawl', 'joined', ('%.0f'):format(joined))
call('HSET', base .. 'members', role, token)
call('HSET', base .. 'heartbeats', role, now)
call('HSET', base .. 'locations', role, location)
return { role, joined }
