local member = member_of(ARGV[1])
local is_member = member and member.token == ARGV[2] and not member.dead
if is_member then
  write_member(ARGV[1], { token = member.token, heartbeat = now, location = member.location })
  if ARGV[3] ~= '0' then call('HINCRBY', base .. 'crawl', 'elapsed', ARGV[3]) end
end
return { is_member and 1 or 0, unpack(state()) }
