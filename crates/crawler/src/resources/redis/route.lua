-- For each draw, moves one URL from the priority queue drawn, or the next that is not empty and not held back, to the
-- queue of its domain's owner, or lets it wait for its domain's share. A domain that nobody owns goes to the worker
-- with the shortest queue. Answers how many were moved.
local queues, draws = number(), argument()
local filed = (call('HGET', base .. 'counts', 'filed') or 0) + 0
if filed == 0 and call('EXISTS', base .. 'returned') == 0 then return 0 end
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

local moved, waiting = 0, 0
filed = 0

local function place(ticket)
  local name = task_of(ticket)[4]
  local state = domain_of(name)
  if state and state.held == 0 and state.waiting == 0 and state.lapses <= now then state = nil end
  if state and (state.held >= SHARE or state.waiting > 0) then
    call('RPUSH', base .. 'waiting:' .. name, ticket)
    state.waiting = state.waiting + 1
    waiting = waiting + 1
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
  if not ticket or not place(ticket) then break end
  call('LPOP', base .. 'returned')
  moved = moved + 1
end

local held_back = {}
for i = 1, #draws do
  local drawn, placed = draws:byte(i), false
  for step = 0, queues - 1 do
    local queue = (drawn + step) % queues
    local ticket = not held_back[queue] and call('LPOP', base .. 'filed:' .. queue)
    if ticket then
      placed = place(ticket)
      if placed then
        moved, filed = moved + 1, filed + 1
        break
      end
      call('LPUSH', base .. 'filed:' .. queue, ticket)
    end
    held_back[queue] = true
  end
  if not placed then break end
end
if moved == 0 then return 0 end
write_domains()
if filed > 0 then count('filed', 0 - filed) end
if waiting > 0 then count('waiting', waiting) end
local now_long = {}
for _, worker in ipairs(workers) do
  now_long[#now_long + 1], now_long[#now_long + 2] = worker, lengths[worker]
end
for_many('HSET', base .. 'lengths', now_long)
return moved
