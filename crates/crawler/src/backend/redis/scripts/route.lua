-- For each draw, moves one URL from the priority queue drawn, or the next that is not empty and not held back, to the
-- queue of its domain's owner, or lets it wait for its domain's share. A domain that nobody owns goes to the worker
-- with the shortest queue. Answers how many were moved.
local LOOKED_AT = 32  -- URLs of a priority queue at a time
local queues, draws = number(), argument()
if counted('filed') == 0 and call('EXISTS', base .. 'returned') == 0 then return 0 end
local lengths, total, workers = {}, {}, {}
local own = call('HGETALL', base .. 'lengths')
for i = 1, #own, 2 do
  workers[#workers + 1] = own[i]
  lengths[own[i]], total[own[i]] = tonumber(own[i + 1]), tonumber(own[i + 1])
end
-- How much each worker has in its queues of other partitions.
for _ = 1, number() do
  local worker, elsewhere = argument(), number()
  if total[worker] then total[worker] = total[worker] + elsewhere end
end
forget_lapsed_domains()

-- Among equals each partition begins with another, so that they do not all choose the same.
local function shortest()
  local best
  for i = 1, #workers do
    local worker = workers[(partition + i - 1) % #workers + 1]
    if not best or total[worker] < total[best] then best = worker end
  end
  return best
end

local moved, filed = 0, 0
local behind = {}  -- what joins those that wait for their domain's share, by domain

local function place(ticket, name)
  local state = domain_of(name)
  if state and state.held == 0 and state.waiting == 0 and state.lapses <= now then state = nil end
  if state and (state.held >= SHARE or state.waiting > 0) then
    local waiting = behind[name] or {}
    behind[name] = waiting
    waiting[#waiting + 1] = ticket
    state.waiting = state.waiting + 1
    count('waiting', 1)
    note_hunger(name, state)
    write_domain(name, state)
    return true
  end
  local worker = state and state.owner or shortest()
  if not worker or (lengths[worker] or room) >= room then return false end
  enqueue(worker, ticket)
  lengths[worker], total[worker] = lengths[worker] + 1, total[worker] + 1
  state = state or { owner = worker, held = 0, waiting = 0, hungry = '0' }
  state.held = state.held + 1
  write_domain(name, state)
  return true
end

-- What a dead worker left goes first, to be where it would be by now; only so much at a time, so that nobody waits long.
for _ = 1, AT_ONCE do
  local ticket = call('LINDEX', base .. 'returned', 0)
  if not ticket or not place(ticket, task_of(ticket)[4]) then break end
  call('LPOP', base .. 'returned')
  moved = moved + 1
end

-- The first URLs of the priority queues, looked at several at a time, their domains, and how many of them were placed.
local heads = {}

local function first_of(queue, most)
  local head = heads[queue] or { tickets = {}, domains = {}, placed = 0 }
  heads[queue] = head
  if head.placed == #head.tickets then
    local more = call('LRANGE', base .. 'filed:' .. queue, head.placed, head.placed + math.min(most, LOOKED_AT) - 1)
    for i, task in ipairs(for_many('HMGET', base .. 'tasks', more)) do
      head.tickets[#head.tickets + 1], head.domains[#head.domains + 1] = more[i], cmsgpack.unpack(task)[4]
    end
  end
  return head
end

local held_back = {}
for i = 1, #draws do
  local is_placed = false
  for step = 0, queues - 1 do
    local queue = (draws:byte(i) + step) % queues
    if not held_back[queue] then
      local head = first_of(queue, #draws - i + 1)
      local ticket = head.tickets[head.placed + 1]
      if ticket and place(ticket, head.domains[head.placed + 1]) then
        head.placed = head.placed + 1
        moved, filed, is_placed = moved + 1, filed + 1, true
        break
      end
      held_back[queue] = true
    end
  end
  if not is_placed then break end
end
for queue, head in pairs(heads) do
  if head.placed > 0 then call('LTRIM', base .. 'filed:' .. queue, head.placed, -1) end
end
if moved == 0 then return 0 end
for name, waiting in pairs(behind) do for_many('RPUSH', base .. 'waiting:' .. name, waiting) end
write_domains()
if filed > 0 then count('filed', 0 - filed) end
write_counts()
local now_long = {}
for _, worker in ipairs(workers) do
  now_long[#now_long + 1], now_long[#now_long + 2] = worker, lengths[worker]
end
for_many('HSET', base .. 'lengths', now_long)
return moved
