-- A member is no more, and all that it had is back.
local name, token = argument(), argument()
local member = member_of(name)
if member and member.token == token then call('HDEL', base .. 'members', name) end
