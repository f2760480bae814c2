local member = member_of(ARGV[1])
if not member or member.token ~= ARGV[2] or heartbeat_of(member) ~= ARGV[3] then return 0 end
member.dead = true
write_member(ARGV[1], member)
return 1
