-- Ends a loan whose end is recorded, whose children are admitted and whose budget is settled: counts it, remembers the URL
-- for a lifetime, and gives its place to the next of its domain. Answers 1, or 0 if the loan had ended already.
local before = answered()
if before then return before end
local ticket, which, document = argument(), argument(), argument()
local links_new, links_known = number(), number()
local loan = loan_of(ticket)
if not loan or loan.number ~= which then return answer(0) end

local id, redirects, again, name, host, url = unpack(task_of(ticket))
local _, depth = outstanding(id)
local ending = cmsgpack.unpack(call('HGET', base .. 'endings', ticket))
call('HDEL', base .. 'endings', ticket)
call('HDEL', base .. 'loans', ticket)
call('XACK', base .. 'queue:' .. loan.worker, 'worker', loan.message)
call('XDEL', base .. 'queue:' .. loan.worker, loan.message)
call('HDEL', base .. 'tasks', ticket)
call('HDEL', base .. 'outstanding', id)
if keeps_depths and depth < ending.depth and ending.has_links then
  -- Met nearer while it was on loan: its links were taken for deeper than they are.
  admit(id, depth, redirects, 1, name, host, url)
  write_admitted()
else
  -- Only what has links is visited again for them, should it be met nearer: nothing is nearer than depth 0.
  keep_link(id, (ending.has_links or again == 1) and depth or 0)
end
host_is_active(host, -1)

-- A revisit finds the same links again; but those that are new now were not counted before.
if links_new > 0 then call('HINCRBY', base .. 'counts', 'links_new', links_new) end
-- A URL that was visited again has no label: it has been counted before.
if ending.label ~= '' then
  -- A page that has its number is kept, whatever its second visit gave.
  call('HINCRBY', base .. 'outcomes', document ~= '0' and 'kept' or ending.label, 1)
  if links_known > 0 then call('HINCRBY', base .. 'counts', 'links_known', links_known) end
  for i = 1, #ending.refused, 2 do
    call('HINCRBY', base .. 'refused', ending.refused[i], ending.refused[i + 1])
  end
end
pace_host(host, ending.rest, ending.delay)
if document ~= '0' and ending.output ~= '' then call('HSET', base .. 'output', document, ending.output) end

local state = domain_of(name)
if state then
  state.held = math.max(0, state.held - 1)
  note_hunger(name, state)
  write_domain(name, state)
end
call('HINCRBY', base .. 'counts', 'completed', 1)
feed(loan.worker)
return answer(1)
