-- What is common to the ways in which a worker loses its loans.
local everybody = number()  -- the pause that a host gets which has no longer one of its own, in milliseconds
local site_delay = number()  -- the pause that all hosts of a domain get together

-- Ends the loan of a ticket, if it is on loan. Its host may have been in the middle of a request: it is left alone for as
-- long as after any other. Answers which loan it was. Whoever does this writes the active hosts at the end.
local function lose(ticket)
  local loan = loan_of(ticket)
  if not loan then return nil end
  call('HDEL', base .. 'loans', ticket)
  call('HDEL', base .. 'endings', ticket)
  local _, _, _, domain, host = unpack(task_of(ticket))
  host_is_active(host, -1)
  local delay = (call('HGET', base .. 'delays', host) or 0) + 0
  pace_host(host, math.max(delay, everybody), 0)
  pace_host(site_of(domain), site_delay, 0)
  return loan.number
end
