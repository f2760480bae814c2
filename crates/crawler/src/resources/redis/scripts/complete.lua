-- Completes URLs in one step, where everything is in one place: admits their children, settles their budget, ends their
-- loans. Answers of each whether its loan held, the number of a page that was kept, or 0, and how many children were
-- new; and which budget is spent, if one is.
local before = answered()
if before then return before end
local completed = {}
for i = 1, number() do
  local ticket, which = argument(), argument()
  local kept, bytes, links_new, links_known = argument() == '1', number(), number(), number()
  local ending, loan = read_ending(), loan_of(ticket)
  local is_refused = not loan or loan.number ~= which or gone[ending.id]
  -- Children go in before the parent completes, so "outstanding" reaches zero only at the end.
  local new, known, entry = admit_found(ending.id, is_refused)
  if is_refused then
    completed[i] = { 0, 0, 0 }
  else
    local document = settle(ticket, which, kept, bytes, ending.host)
    ending.document = document
    end_loan(ticket, loan, ending, entry, document > 0, links_new + new, links_known + known)
    completed[i] = { 1, document, new }
  end
end
write_used()
write_ends()
return answer({ completed, spent() or '' })
