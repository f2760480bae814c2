-- Tells whether a loan still holds, and records how it ends, so that anybody can bring it to its end once its children are
-- admitted and its budget is settled.
local ticket, which = argument(), argument()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return 0 end
-- The last tells whether there are children that are admitted only with the end: then nobody else can bring it about.
local ending = {}
for i = last_argument + 1, #ARGV do ending[#ending + 1] = ARGV[i] end
call('HSET', base .. 'endings', ticket, cmsgpack.pack(ending))
return 1
