-- The end of a loan.

-- How the loan of the URL that has this id ends, as it is told.
local function read_ending(id)
  local ending = {
    id = id, again = argument() == '1', domain = argument(), host = argument(), depth = number(),
    label = argument(), ended = number(), status = number(), document = 0, rest = number(), delay = number(),
    site_rest = number(), refused = {},
  }
  for i = 1, 2 * number() do ending.refused[i] = argument() end
  ending.has_links = math.floor(ending.ended / HAS_LINKS) % 2 == 1
  return ending
end

-- What is thrown away together, when all loans of the script have ended.
local ended_ids, ended_tickets, ended_messages = {}, {}, {}

-- From now on the URL is known; one that was met nearer while it was on loan is queued again, because its
-- links were taken for deeper than they are.
local function let_go(ticket, ending, is_page, entry)
  local id = ending.id
  local depth, from = read_outstanding(fresh[id] or entry)
  local task = depth < ending.depth and ending.has_links and task_of(ticket)
  gone[id], fresh[id] = true, nil
  ended_ids[#ended_ids + 1] = id
  -- What was visited again ended as it did before; and a page that has its number is kept, whatever a second visit gave.
  local before = ending.again and call('HGET', shard_key(id), id)
  local how = is_page and ending.ended - ending.ended % HAS_LINKS or ending.ended
  if ending.again and not ending.has_links then how = how + HAS_LINKS end
  local ended = before and end_of(before)
    or struct.pack('<BI2I4I4', how, ending.status, math.floor(now / 1000), ending.document)
  keep_link(id, depth, ended, from)
  if task then
    found_on = from
    admit(id, depth, task[2], 1, ending.domain, ending.host, task[6])
  end
end

local function count_ending(ending, is_page, links_new, links_known)
  count('completed', 1)
  -- A revisit finds the same links again; but those that are new now were not counted before.
  if links_new > 0 then count('links_new', links_new) end
  if ending.again then return end
  -- A page that has its number is kept, whatever its second visit gave.
  add('outcomes', is_page and 'page' or ending.label, 1)
  if links_known > 0 then count('links_known', links_known) end
  for i = 1, #ending.refused, 2 do
    add('refused', ending.refused[i], ending.refused[i + 1])
  end
end

-- Ends a loan of the outstanding URL that has this entry: counts it, and gives its place to the next of its domain.
-- Whoever does this writes it all at the end.
local function end_loan(ticket, loan, ending, entry, is_page, links_new, links_known)
  ended_tickets[#ended_tickets + 1] = ticket
  local messages = ended_messages[loan.worker] or {}
  ended_messages[loan.worker] = messages
  messages[#messages + 1] = loan.message
  let_go(ticket, ending, is_page, entry)
  host_is_active(ending.host, -1)
  count_ending(ending, is_page, links_new, links_known)
  pace_host(ending.host, ending.rest, ending.delay)
  pace_host(site_of(ending.domain), ending.site_rest, 0)
  local state = domain_of(ending.domain)
  if state then
    state.held = math.max(0, state.held - 1)
    note_hunger(ending.domain, state)
    write_domain(ending.domain, state)
  end
end

-- Writes what the ends of loans changed.
local function write_ends()
  for_many('HDEL', base .. 'loans', ended_tickets)
  for_many('HDEL', base .. 'tasks', ended_tickets)
  for_many('HDEL', base .. 'outstanding', ended_ids)
  write_admitted()
  for worker, messages in pairs(ended_messages) do
    -- They are thrown away with their neighbours when the worker takes the next: to look for each alone is dear.
    call('XACK', base .. 'queue:' .. worker, 'worker', unpack(messages))
    feed(worker)
  end
  write_domains()
  write_active_hosts()
  write_counts()
  write_sums()
end
