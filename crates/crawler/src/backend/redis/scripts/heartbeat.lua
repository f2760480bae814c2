local role, token, elapsed = unpack(ARGV)
-- The heartbeat of a member that was declared dead is negative.
local is_member = call('HGET', base .. 'members', role) == token and tonumber(call('HGET', base .. 'heartbeats', role) or 0) > 0
if is_member then
  call('HSET', base .. 'heartbeats', role, now)
  if elapsed ~= '0' then call('HINCRBY', base .. 'crawl', 'elapsed', elapsed) end
end
return { is_member and 1 or 0, state() }
