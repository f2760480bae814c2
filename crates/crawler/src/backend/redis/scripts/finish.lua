-- Ends a loan whose end is recorded, whose children elsewhere are admitted and whose budget is settled: admits the
-- children that belong here, then ends it. Answers whether it held (2: but its end is not
-- recorded any more), and how many of these children were new.
local before = answered()
if before then return before end
local ticket, which, is_page = argument(), argument(), argument() == '1'
local links_new, links_known = number(), number()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return { 0, 0 } end
-- Redis has lost it, and not the loan: who has that on loan finds out.
local recorded = call('HGET', base .. 'endings', ticket)
if not recorded then return { 2, 0 } end
local new, known = admit_found()
arguments, last_argument = cmsgpack.unpack(recorded), 0
call('HDEL', base .. 'endings', ticket)
local ending = read_ending(argument())
local entry = call('HGET', base .. 'outstanding', ending.id)
end_loan(ticket, loan, ending, entry, is_page, links_new + new, links_known + known)
write_ends()
return answer({ 1, new })
