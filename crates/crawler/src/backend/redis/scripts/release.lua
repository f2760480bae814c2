-- Counts what the requests of a loan read, and returns its reservation, while it still holds.
if answered() then return end
local ticket, loan, read = argument(), argument(), number()
look_up_reservations({ ticket })
if give_back(ticket, loan) then used.bytes = used.bytes + read end
write_used()
answer(1)
