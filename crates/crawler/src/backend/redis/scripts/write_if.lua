-- Runs commands if all conditions hold, which come first: a command, and as its last word the value that it returns. Returns
-- the number of the first condition that does not hold, or 0. The number of its words is before each command.
local at = 2
local function run(without)
  local first = at + 1
  at = first + ARGV[at]
  return redis.call(unpack(ARGV, first, at - 1 - without))
end
for condition = 1, tonumber(ARGV[1]) do
  if tostring(run(1) or '') ~= ARGV[at - 1] then return condition end
end
while at <= #ARGV do run(0) end
return 0
