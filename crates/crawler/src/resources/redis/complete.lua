-- Completes a URL in one step, where everything is in one place: admits its children, settles its budget, ends its loan.
-- Answers whether the loan held, the number of a page that was kept, or 0, how many children were new, and which budget
-- is spent, if one is.
local before = answered()
if before then return before end
local ticket, which = argument(), argument()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return { 0, 0, 0, '' } end
local kept, bytes, links_new, links_known = argument() == '1', number(), number(), number()
local ending = read_ending()
-- Children go in before the parent completes, so "outstanding" reaches zero only at the end.
local new, known = admit_found()
local document = settle(ticket, which, kept, bytes, ending.host)
write_used()
ending.document = document
end_loan(ticket, loan, ending, document > 0, links_new + new, links_known + known)
return answer({ 1, document, new, spent() or '' })
