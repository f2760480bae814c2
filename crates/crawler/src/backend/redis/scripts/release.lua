-- Counts what the requests of a loan read, and returns its reservation, while it still holds.
if answered() then return end
local ticket, loan, decoded, received = argument(), argument(), number(), number()
look_up_reservations({ ticket })
if give_back(ticket, loan) then count_read(decoded, received) end
write_used()
answer(1)
