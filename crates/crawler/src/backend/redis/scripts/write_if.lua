-- Runs commands if all conditions hold, which come first: a value, and the command that returns it. Returns the number of the
-- first condition that does not hold, or 0. The number of its words is before each command.
local at = 2
local function run()
  local first = at + 1
  at = first + ARGV[at]
  return redis.call(unpack(ARGV, first, at - 1))
end
for condition = 1, tonumber(ARGV[1]) do
  local expected = ARGV[at]
  at = at + 1
  if tostring(run() or '') ~= expected then return condition end
end
while at <= #ARGV do run() end
return 0
