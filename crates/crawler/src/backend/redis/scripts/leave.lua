local member = member_of(ARGV[1])
if member and member.token == ARGV[2] then call('HDEL', base .. 'members', ARGV[1]) end
