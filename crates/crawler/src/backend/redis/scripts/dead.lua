-- A member was not heard of for too long: it is dead, unless it has been heard of since. Answers whether it is.
local name, token, heard = argument(), argument(), argument()
local member = member_of(name)
if not member or member.token ~= token or ('%.0f'):format(member.heard) ~= heard then return 0 end
member.dead = true
write_member(name, member)
return 1
