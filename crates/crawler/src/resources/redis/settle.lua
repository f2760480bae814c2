-- Counts what the request of a loan used, once for each loan, and returns the rest. A kept page gets its number, which is
-- answered, or 0: once for each URL, also if its loan was lost before it could be completed. What was settled is
-- remembered until it is known to be completed.
for _ = 1, number() do call('HDEL', base .. 'settled', argument()) end
local documents = {}
for i = 1, number() do
  local ticket, loan, kept, bytes, host = argument(), argument(), argument() == '1', number(), argument()
  local settled = call('HGET', base .. 'settled', ticket) or '0 0'
  local by, document = settled:match('^(%d+) (%d+)$')
  document = tonumber(document)
  if by ~= loan then
    used.bytes = used.bytes + bytes
    give_back(ticket, loan)
    if kept and document == 0 then
      if max_pages_per_host then call('HINCRBY', base .. 'hosts', host, 1) end
      used.pages = used.pages + 1
      document = used.pages
    end
    call('HSET', base .. 'settled', ticket, ('%s %.0f'):format(loan, document))
  end
  documents[i] = document
end
write_used()
return documents
