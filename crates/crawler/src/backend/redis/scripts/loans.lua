-- Loans to workers.

-- A loan as it is written: its number, its worker, its message, and the nonce of the move that made it.
local function read_loan(loan)
  if not loan then return nil end
  local which, worker, message, made_by = loan:match('^(%d+) (%d+) (%S+) (%S+)')
  return { number = which, worker = worker, message = message, nonce = made_by }
end

local function loan_of(ticket)
  return read_loan(call('HGET', base .. 'loans', ticket))
end

-- Throws away the messages of a worker's queue whose URLs are completed: they stay there until it takes the next.
local function throw_away_completed(queue)
  local first, completed = '-', {}
  repeat
    local messages = call('XRANGE', queue, first, '+', 'COUNT', AT_ONCE)
    for _, message in ipairs(messages) do
      if call('HEXISTS', base .. 'tasks', message[2][2]) == 0 then completed[#completed + 1] = message[1] end
      first = '(' .. message[1]
    end
  until #messages < AT_ONCE
  for_many('XDEL', queue, completed)
end
