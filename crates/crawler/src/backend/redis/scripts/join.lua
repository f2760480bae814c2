-- Takes a role, or the first number of a worker that is free, unless another process has it that is not known to be dead: then the
-- process stands by.
local role, token, location, dead, dead_heartbeat, ttl, interval, most = unpack(ARGV)
-- A process of a crawl that was purged, which would leave keys behind.
if call('HEXISTS', base .. 'crawl', 'phase') == 0 then return { '', 0 } end
local function member_of(role) return call('HGET', base .. 'members', role) or token end
-- Records a process that waits for a role. Its record is only for displays: nothing fails if memory is full.
local function stand_by(token, role, location)
  local key, count = base .. 'standbys', 0
  local records = call('HGETALL', key)
  for i = 1, #records, 2 do
    local age = tonumber(now) - (tonumber(records[i + 1]:match('^%d+')) or 0)
    if records[i] == token and age >= 0 and age < tonumber(interval) then return end
    if age < 0 or age > tonumber(ttl) then call('HDEL', key, records[i]) elseif records[i] ~= token then count = count + 1 end
  end
  if count < tonumber(most) and type(redis.pcall('HSET', key, token, ('%s %s %s'):format(now, role, location))) == 'number' then
    call('PEXPIRE', key, ttl)
  end
end
if role == '' then
  local number = 0
  while member_of(tostring(number)) ~= token do number = number + 1 end
  role = tostring(number)
end
if member_of(role) ~= token and (member_of(role) ~= dead or call('HGET', base .. 'heartbeats', role) ~= dead_heartbeat) then
  stand_by(token, role, location)
  return { role, 0 }
end
call('HDEL', base .. 'standbys', token)
-- Later processes have later times, also if Redis's clock was set back.
local joined = math.max(tonumber(now), tonumber(call('HGET', base .. 'crawl', 'joined') or 0) + 1)
call('HSET', base .. 'crawl', 'joined', ('%.0f'):format(joined))
for name, value in pairs({ members = token, heartbeats = now, locations = location }) do call('HSET', base .. name, role, value) end
return { role, joined }
