-- Loans to workers.

-- The loan of a ticket: its number, its worker, its message, and the nonce of the move that made it.
local function loan_of(ticket)
  local loan = call('HGET', base .. 'loans', ticket)
  if not loan then return nil end
  local which, worker, message, made_by = loan:match('^(%d+) (%d+) (%S+) (%S+)$')
  return { number = which, worker = worker, message = message, nonce = made_by }
end

-- The tickets in a worker's queue, and on loan to it, in order: messages stay for a while after their completion.
local function queued_tickets(worker)
  local tickets = {}
  for _, message in ipairs(call('XRANGE', base .. 'queue:' .. worker, '-', '+')) do
    local ticket = message[2][2]
    if call('HEXISTS', base .. 'tasks', ticket) == 1 then tickets[#tickets + 1] = ticket end
  end
  return tickets
end
