local members, all = {}, call('HGETALL', base .. 'members')
for i = 1, #all, 2 do
  local member = cmsgpack.unpack(all[i + 1])
  local since_heartbeat = ('%.0f'):format(math.max(0, now - member.heartbeat))
  members[#members + 1] = { all[i], member.token, member.location, member.dead and 1 or 0, heartbeat_of(member), since_heartbeat }
end
return { members, unpack(state()) }
