-- Tells whether a loan still holds, and records how it ends, so that anybody can bring it to its end once its children are
-- admitted and its budget is settled: how its URL is counted, and what its page adds to the outputs.
local ticket, which = argument(), argument()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return 0 end
local ending = {
  label = argument(), rest = number(), delay = number(), has_links = argument() == '1', depth = number(), output = argument(),
  refused = {},
}
for i = 1, 2 * number() do ending.refused[i] = argument() end
call('HSET', base .. 'endings', ticket, cmsgpack.pack(ending))
return 1
