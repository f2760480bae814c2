-- A member is to pass on a part of what it has, to those who have so much less. It learns that with its next sign of life.
local name, token, takers = argument(), argument(), {}
for i = 1, number() do
  local worker = number()
  takers[i] = { worker, number() }
end
local member = member_of(name)
if not member or member.token ~= token or member.dead then return end
member.takers = takers
write_member(name, member)
