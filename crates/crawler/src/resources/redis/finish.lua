-- Ends a loan whose children are admitted and whose budget is settled: counts it, remembers the URL for a lifetime, and
-- gives its place to the next of its domain. Answers 1, or 0 if the loan had ended already.
local before = answered()
if before then return before end
local ticket, which = argument(), argument()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return answer(0) end

local id, _, _, name, host = unpack(task_of(ticket))
local _, depth = outstanding(id)
call('HDEL', base .. 'loans', ticket)
call('XACK', base .. 'queue:' .. loan.worker, 'worker', loan.message)
call('XDEL', base .. 'queue:' .. loan.worker, loan.message)
call('HDEL', base .. 'tasks', ticket)
call('HDEL', base .. 'outstanding', id)
keep_link(id, depth)
host_is_active(host, -1)

-- One that was visited again has been counted before.
local label = argument()
if label ~= '' then call('HINCRBY', base .. 'outcomes', label, 1) end
for _, count in ipairs({ 'links_new', 'links_known' }) do
  local more = number()
  if more > 0 then call('HINCRBY', base .. 'counts', count, more) end
end
for _ = 1, number() do
  local reason = argument()
  call('HINCRBY', base .. 'refused', reason, argument())
end
local rest = number()
if rest > 0 then
  call('ZREMRANGEBYSCORE', base .. 'rests', '-inf', now)
  call('ZADD', base .. 'rests', now + rest, host)
end
local document, output = argument(), argument()
if output ~= '' then call('HSET', base .. 'output', document, output) end

local state = domain_of(name)
if state then
  state.held = math.max(0, state.held - 1)
  note_hunger(name, state)
  write_domain(name, state)
end
call('HINCRBY', base .. 'counts', 'completed', 1)
feed(loan.worker)
return answer(1)
