-- Passes domains of a worker on to others, each whole or not at all, with what the worker has of it in hand and in its
-- queue: it waits for its domain's share again, before all else and in its order, and the new owner is fed from there. Of
-- what is in hand nothing is being asked for, so no host has to be left alone for it. Answers of each domain what came of
-- it.
local PASSED, REFUSED, NOT_NOW = 1, 0, 2
local before = answered()
if before then return before end
local from, holder = argument(), argument()
local stream = base .. 'queue:' .. from

local function is_there(worker)
  return call('HEXISTS', base .. 'lengths', worker) == 1
end

local function has_place()
  return holder == '' or (call('HGET', base .. 'holders', from) or ''):match(' (.*)$') == holder
end

local function read_pairs()
  local all = {}
  for i = 1, number() do
    local ticket = argument()
    all[i] = { ticket, argument() }
  end
  return all
end

-- What is verified of the URLs in hand and in the queue that are told: a loan may have ended meanwhile, or been made.
local function held(lent, queued)
  local urls = {}
  for _, lease in ipairs(lent) do
    local ticket, which = unpack(lease)
    local loan = loan_of(ticket)
    if loan and loan.number == which and loan.worker == from then
      urls[#urls + 1] = { ticket = ticket, message = loan.message, host = task_of(ticket)[5] }
    end
  end
  for _, one in ipairs(queued) do
    local ticket, message = unpack(one)
    local is_queued = #call('XRANGE', stream, message, message) == 1 and call('HEXISTS', base .. 'tasks', ticket) == 1
    if is_queued and not loan_of(ticket) then urls[#urls + 1] = { ticket = ticket, message = message } end
  end
  return urls
end

local waiting, unqueued = 0, 0

-- Takes URLs of a domain out of the worker's hands and its queue. They wait again, the first of them first.
local function take_back(name, urls)
  local loans, messages, tickets = {}, {}, {}
  for i, url in ipairs(urls) do
    messages[i], tickets[#urls + 1 - i] = url.message, url.ticket
    if url.host then
      loans[#loans + 1] = url.ticket
      host_is_active(url.host, -1)
    end
  end
  for_many('HDEL', base .. 'loans', loans)
  for_many('HDEL', base .. 'endings', loans)
  if #loans > 0 then call('XACK', stream, 'worker', unpack(messages)) end
  -- What stays in the queue is lent again to whoever takes up the worker's place.
  for_many('XDEL', stream, messages)
  for_many('LPUSH', base .. 'waiting:' .. name, tickets)
  waiting, unqueued = waiting + #urls, unqueued + #urls - #loans
end

local is_giving = is_there(from) and has_place()

local function pass(name, to, lent, queued)
  local state = domain_of(name)
  if not is_giving or not state or state.owner ~= from or to == from or not is_there(to) then return REFUSED end
  local urls = held(lent, queued)
  -- The rest is on its way to the worker, or in its queue.
  if #urls ~= state.held then return NOT_NOW end
  take_back(name, urls)
  if state.hungry == '1' then call('LREM', base .. 'hungry:' .. from, 0, name) end
  state.owner, state.held, state.waiting, state.hungry = to, 0, state.waiting + #urls, '0'
  note_hunger(name, state)
  write_domain(name, state)
  return PASSED
end

local came, fed = {}, { [from] = true }
for i = 1, number() do
  local name, to, lent, queued = argument(), argument(), read_pairs(), read_pairs()
  came[i] = pass(name, to, lent, queued)
  if came[i] == PASSED then fed[to] = true end
  -- Also those that were asked for something else than a URL of theirs.
  for _ = 1, number() do
    local host = argument()
    pace_host(host, number(), number())
  end
end
if waiting > 0 then count('waiting', waiting) end
if unqueued > 0 then call('HINCRBY', base .. 'lengths', from, 0 - unqueued) end
for worker in pairs(fed) do
  if is_there(worker) then feed(worker) end
end
write_counts()
write_domains()
write_active_hosts()
return answer(came)
