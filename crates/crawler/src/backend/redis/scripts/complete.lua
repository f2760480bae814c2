-- Completes URLs in one step, where everything is in one place: admits their children, settles their budget, ends their
-- loans. Answers of each whether its loan held, the number of a page that was kept, or 0, and how many children were
-- new; and which budget is spent, if one is.
local before = answered()
if before then return before end
local completed, tickets, numbers, ids = {}, {}, {}, {}
local requests = number()
if requests > 0 then add('counts', 'requests', requests) end
for i = 1, number() do tickets[i], numbers[i], ids[i] = argument(), argument(), argument() end
local loans = for_many('HMGET', base .. 'loans', tickets)
local entries = for_many('HMGET', base .. 'outstanding', ids)
look_up_reservations(tickets)
for i, ticket in ipairs(tickets) do
  local kept, decoded, received = argument() == '1', number(), number()
  local links_new, links_known = number(), number()
  local ending, loan = read_ending(ids[i]), read_loan(loans[i])
  local is_refused = not loan or loan.number ~= numbers[i] or gone[ending.id]
  -- Children go in before the parent completes, so "outstanding" reaches zero only at the end.
  local new, known = admit_found(is_refused)
  if is_refused then
    completed[i] = { 0, 0, 0 }
  else
    local document = settle(ticket, numbers[i], kept, decoded, received, ending.host, site_of(ending.domain))
    ending.document = document
    end_loan(ticket, loan, ending, entries[i], document > 0, links_new + new, links_known + known)
    completed[i] = { 1, document, new }
  end
end
write_used()
write_ends()
return answer({ completed, spent() or '' })
