-- Counts what the request of a loan used, once for each loan, and returns the rest. A kept page gets its number, which is
-- answered, or 0: once for each URL, also if its loan was lost before it could be completed. What was settled is
-- remembered until it is known to be completed. Answers the numbers, and which budget is spent, if one is.
local before = answered()
if before then return before end
for _ = 1, number() do call('HDEL', base .. 'settled', argument()) end
local documents, tickets = {}, {}
for i = 1, number() do tickets[i] = argument() end
look_up_reservations(tickets)
for i, ticket in ipairs(tickets) do
  local loan, kept, decoded, received = argument(), argument() == '1', number(), number()
  local host, site = argument(), argument()
  local settled = call('HGET', base .. 'settled', ticket) or '0 0'
  local by, document = settled:match('^(%d+) (%d+)$')
  document = tonumber(document)
  if by ~= loan then
    local counted = settle(ticket, loan, kept and document == 0, decoded, received, host, site)
    if document == 0 then document = counted end
    call('HSET', base .. 'settled', ticket, ('%s %.0f'):format(loan, document))
  end
  documents[i] = document
end
write_used()
return answer({ documents, spent() or '' })
