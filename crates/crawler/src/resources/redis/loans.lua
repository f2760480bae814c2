-- Loans to workers.

-- The loan of a ticket: its number, its worker, its message, and the nonce of the move that made it.
local function loan_of(ticket)
  local loan = call('HGET', base .. 'loans', ticket)
  if not loan then return nil end
  local which, worker, message, made_by = loan:match('^(%d+) (%d+) (%S+) (%S+)$')
  return { number = which, worker = worker, message = message, nonce = made_by }
end
