-- Who is in the crew, how long ago each was heard of, how much it has in hand, and how the crawl is.
local members, all = {}, call('HGETALL', base .. 'members')
for i = 1, #all, 2 do
  local member = cmsgpack.unpack(all[i + 1])
  members[#members + 1] = {
    all[i], member.token, member.where, member.dead and 1 or 0,
    ('%.0f'):format(member.heard), ('%.0f'):format(math.max(0, now - member.heard)), member.domains or -1,
  }
end
return { members, unpack(crawl()) }
