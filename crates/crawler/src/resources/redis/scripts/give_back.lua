-- Returns the reservations of loans that ended otherwise than by their completion.
for _ = 1, number() do
  local ticket, loan = argument(), argument()
  give_back(ticket, loan)
end
write_used()
