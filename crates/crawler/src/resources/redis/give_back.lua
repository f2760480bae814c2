-- Returns the reservations of loans that ended otherwise than by their completion.
for _ = 1, number() do give_back(argument()) end
write_used()
