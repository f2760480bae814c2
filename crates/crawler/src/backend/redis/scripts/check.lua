-- Tells of each loan whether it still holds.
local holds = {}
for i = 1, number() do
  local ticket, which = argument(), argument()
  local loan = loan_of(ticket)
  holds[i] = loan and loan.number == which and 1 or 0
end
return holds
