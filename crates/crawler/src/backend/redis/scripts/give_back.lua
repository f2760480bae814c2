-- Returns the reservations of loans that ended otherwise than by their completion.
local tickets, loans = {}, {}
for i = 1, number() do tickets[i], loans[i] = argument(), argument() end
look_up_reservations(tickets)
for i, ticket in ipairs(tickets) do give_back(ticket, loans[i]) end
write_used()
