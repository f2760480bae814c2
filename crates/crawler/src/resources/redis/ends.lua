-- The end of a loan.

-- How a loan ends, as it is told.
local function read_ending()
  local ending = {
    id = argument(), again = argument() == '1', domain = argument(), host = argument(), depth = number(),
    label = argument(), has_links = argument() == '1', rest = number(), refused = {},
  }
  for i = 1, 2 * number() do ending.refused[i] = argument() end
  return ending
end

-- From now on the URL is known for a lifetime; one that was met nearer while it was on loan is queued again, because its
-- links were taken for deeper than they are.
local function let_go(ticket, ending)
  local id, depth = ending.id, ending.depth
  if keeps_depths then depth = select(2, outstanding(id)) end
  local task = depth < ending.depth and ending.has_links and task_of(ticket)
  call('HDEL', base .. 'tasks', ticket)
  call('HDEL', base .. 'outstanding', id)
  if task then
    admit(id, depth, task[2], 1, ending.domain, ending.host, task[6])
    write_admitted()
  else
    -- Only what has links is visited again for them, should it be met nearer: nothing is nearer than depth 0.
    keep_link(id, (ending.has_links or ending.again) and depth or 0)
  end
end

local function count_ending(ending, is_page, links_new, links_known)
  count('completed', '1')
  -- A revisit finds the same links again; but those that are new now were not counted before.
  if links_new > 0 then count('links_new', links_new) end
  if ending.again then return end
  -- A page that has its number is kept, whatever its second visit gave.
  call('HINCRBY', base .. 'outcomes', is_page and 'kept' or ending.label, '1')
  if links_known > 0 then count('links_known', links_known) end
  for i = 1, #ending.refused, 2 do
    call('HINCRBY', base .. 'refused', ending.refused[i], ending.refused[i + 1])
  end
end

-- Ends a loan: counts it, and gives its place to the next of its domain.
local function end_loan(ticket, loan, ending, is_page, links_new, links_known)
  call('HDEL', base .. 'loans', ticket)
  -- The message is thrown away with its neighbours when the worker takes the next: to look for it alone is dear.
  call('XACK', base .. 'queue:' .. loan.worker, 'worker', loan.message)
  let_go(ticket, ending)
  host_is_active(ending.host, '-1')
  count_ending(ending, is_page, links_new, links_known)
  if ending.rest > 0 then
    call('ZREMRANGEBYSCORE', base .. 'rests', '-inf', now)
    -- What was learnt first may be told last: the longer rest is the one that is owed.
    call('ZADD', base .. 'rests', 'GT', now + ending.rest, ending.host)
  end
  local state = domain_of(ending.domain)
  if state then
    state.held = math.max(0, state.held - 1)
    note_hunger(ending.domain, state)
    write_domain(ending.domain, state)
  end
  feed(loan.worker)
end
