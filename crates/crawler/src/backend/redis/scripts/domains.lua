-- The domain table, and the workers' queues.
local SHARE = 64  -- URLs of one domain in its owner's queue and hands

local domains, changed_domains = {}, {}

-- Several moves of a script are of the same domain: each is looked up once, and written at the end.
local function domain_of(name)
  if domains[name] then return domains[name] end
  local state = call('HGET', base .. 'domains', name)
  if not state then return nil end
  local owner, held, waiting, hungry, lapses = state:match('^(%d+) (%d+) (%d+) (%d) (%d+)$')
  held, waiting = held + 0, waiting + 0
  local is_held = held > 0 or waiting > 0
  domains[name] = {
    owner = owner, held = held, waiting = waiting, hungry = hungry, lapses = lapses + 0, was_held = is_held,
  }
  return domains[name]
end

local function write_domain(name, state)
  domains[name], changed_domains[name] = state, state
end

-- A domain lapses a while after its last use, and not while its owner holds anything of it.
local function write_domains()
  local lapses = ('%d'):format(now + domain_lifetime)
  for name, state in pairs(changed_domains) do
    local is_held = state.held > 0 or state.waiting > 0
    call('HSET', base .. 'domains', name,
      ('%s %d %d %s %s'):format(state.owner, state.held, state.waiting, state.hungry, lapses))
    if not is_held or not state.was_held then
      call('ZADD', base .. 'lapses', is_held and '+inf' or lapses, name)
    end
  end
end

local function forget_lapsed_domains()
  local lapsed = call('ZRANGEBYSCORE', base .. 'lapses', '-inf', now, 'LIMIT', 0, 1000)
  for _, name in ipairs(lapsed) do
    call('HDEL', base .. 'domains', name)
    call('ZREM', base .. 'lapses', name)
  end
end

-- Joins its owner's list of hungry domains: something of it waits, and some of its share is free.
local function note_hunger(name, state)
  if state.hungry == '0' and state.held < SHARE and state.waiting > 0 then
    state.hungry = '1'
    call('RPUSH', base .. 'hungry:' .. state.owner, name)
  end
end

local function queue_length(worker)
  return tonumber(call('HGET', base .. 'lengths', worker) or room)
end

-- Whoever does this counts it in the lengths.
local function enqueue(worker, ticket)
  call('XADD', base .. 'queue:' .. worker, '*', 't', ticket)
end

-- Brings what waits for its domain's share into a worker's queue, from its domains in turn, as far as there is room. Where
-- there is room for all of them, each gives as much as its share allows at once. Whoever does this writes the counts and
-- the domains at the end.
local function feed(worker)
  local hungry = call('LLEN', base .. 'hungry:' .. worker)
  if hungry == 0 then return end
  local fed, free = 0, room - queue_length(worker)
  while fed < free do
    local name = call('LPOP', base .. 'hungry:' .. worker)
    if not name then break end
    local state = domain_of(name)
    if state and state.owner == worker then
      state.hungry = '0'
      local most = math.min(SHARE - state.held, math.max(1, math.floor((free - fed) / hungry)))
      local tickets = most > 0 and call('LPOP', base .. 'waiting:' .. name, most)
      for _, ticket in ipairs(tickets or {}) do
        state.held, state.waiting = state.held + 1, state.waiting - 1
        enqueue(worker, ticket)
        fed = fed + 1
      end
      -- Nothing is there that was counted: Redis has lost it.
      if most > 0 and not tickets then
        count('waiting', 0 - state.waiting)
        state.waiting = 0
      end
      note_hunger(name, state)
      write_domain(name, state)
    end
  end
  if fed > 0 then
    count('waiting', 0 - fed)
    call('HINCRBY', base .. 'lengths', worker, fed)
  end
end
