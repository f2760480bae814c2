-- What the scripts of a partition share: its settings, link storage, the URL queue, the domain table, the workers' queues.
local room = number()             -- the most URLs in each queue of this partition
local lifetime = number()         -- of a link, in milliseconds
local domain_lifetime = number()  -- of a domain's ownership after its last use
local keeps_depths = argument() == '1'
local partition, partitions = number(), number()  -- which this is, and of how many

local SHARE = 64        -- URLs of one domain in its owner's queue and hands
local GENERATIONS = 8   -- parts of a link's lifetime: what is forgotten is forgotten up to one too late
-- Entries in a shard, in the mean. Integer sets stay compact up to 512; hashes are searched from end to end.
local SHARD = keeps_depths and 32 or 256

-- Lua passes on only so many values at a time.
local AT_ONCE = 1000

-- Carries out a command for many values at once.
local function for_many(command, key, values)
  local answers = {}
  for first = 1, #values, AT_ONCE do
    local answer = call(command, key, unpack(values, first, math.min(first + AT_ONCE - 1, #values)))
    if type(answer) == 'table' then
      for _, one in ipairs(answer) do answers[#answers + 1] = one end
    end
  end
  return answers
end

---------------------------------------------------------------- tasks

-- A task: id, redirects, again, domain, host, URL.
local function task_of(ticket)
  return cmsgpack.unpack(call('HGET', base .. 'tasks', ticket))
end

-- The ticket and the smallest depth of an outstanding URL.
local function outstanding(id)
  local entry = call('HGET', base .. 'outstanding', id)
  if not entry then return nil end
  local ticket, depth = entry:match('^(%d+) (%d+)$')
  return ticket, tonumber(depth)
end

---------------------------------------------------------------- link storage: completed URLs, by generation and shard

local generation_time = math.max(1, math.ceil(lifetime / GENERATIONS))
local generation = math.floor(now / generation_time)
local generations, newest_first

local function read_generations()
  if generations then return end
  generations, newest_first = {}, {}
  local all = call('HGETALL', base .. 'generations')
  for i = 1, #all, 2 do
    local which = tonumber(all[i])
    if which < generation - GENERATIONS then
      call('HDEL', base .. 'generations', all[i])  -- its shards expire by themselves
    else
      local entries, shards = all[i + 1]:match('^(%d+) (%d+)$')
      generations[which] = { entries = tonumber(entries), shards = tonumber(shards) }
      newest_first[#newest_first + 1] = which
    end
  end
  table.sort(newest_first, function(a, b) return a > b end)
end

local function write_generation(which)
  local state = generations[which]
  call('HSET', base .. 'generations', which, state.entries .. ' ' .. state.shards)
end

-- Linear hashing: shards are split one by one, in turn, as entries come.
local function shard_of(id, shards)
  local hash = tonumber(id:sub(-9))  -- ids have more digits than Lua's numbers are exact to
  local low = 1
  while low * 2 <= shards do low = low * 2 end
  local shard = hash % (low * 2)
  if shard >= shards then shard = hash % low end
  return shard, low
end

local function shard_key(which, shard)
  return base .. 'links:' .. which .. ':' .. shard
end

-- A shard lives until nothing that may come into it within its generation matters any more.
local function expire_shard(key)
  call('PEXPIRE', key, lifetime + 3 * generation_time, 'NX')
end

local function split_shard(which)
  local state = generations[which]
  local _, low = shard_of('0', state.shards)
  local from = state.shards - low
  state.shards = state.shards + 1
  local key, target = shard_key(which, from), shard_key(which, state.shards - 1)
  local entries = call(keeps_depths and 'HGETALL' or 'SMEMBERS', key)
  local gone, added = {}, {}
  for i = 1, #entries, keeps_depths and 2 or 1 do
    if shard_of(entries[i], state.shards) ~= from then
      gone[#gone + 1] = entries[i]
      added[#added + 1] = entries[i]
      if keeps_depths then added[#added + 1] = entries[i + 1] end
    end
  end
  if #gone > 0 then
    for_many(keeps_depths and 'HDEL' or 'SREM', key, gone)
    for_many(keeps_depths and 'HSET' or 'SADD', target, added)
    expire_shard(target)
  end
end

-- The generation in which a completed URL was last met, and its smallest depth.
local function find_link(id)
  read_generations()
  for _, which in ipairs(newest_first) do
    local key = shard_key(which, (shard_of(id, generations[which].shards)))
    if keeps_depths then
      local depth = call('HGET', key, id)
      if depth then return which, tonumber(depth) end
    elseif call('SISMEMBER', key, id) == 1 then
      return which, 0
    end
  end
end

local function forget_link(id, which)
  local key = shard_key(which, (shard_of(id, generations[which].shards)))
  if call(keeps_depths and 'HDEL' or 'SREM', key, id) == 1 then
    generations[which].entries = generations[which].entries - 1
    write_generation(which)
  end
end

-- A URL that is not outstanding is known for a lifetime from now.
local function keep_link(id, depth)
  read_generations()
  local state = generations[generation]
  if not state then
    state = { entries = 0, shards = 1 }
    generations[generation] = state
    table.insert(newest_first, 1, generation)
  end
  local key = shard_key(generation, (shard_of(id, state.shards)))
  if keeps_depths then call('HSET', key, id, depth) else call('SADD', key, id) end
  expire_shard(key)
  state.entries = state.entries + 1
  if state.entries > state.shards * SHARD then split_shard(generation) end
  write_generation(generation)
end

---------------------------------------------------------------- the URL queue

-- URLs in the queue, those on loan to the prioritizer left out.
local function urls_queued()
  return call('XLEN', base .. 'urls') - call('HLEN', base .. 'prioritizing')
end

-- Brings what waits in the overflow into the URL queue, in order, as far as there is room.
local function fill_url_queue()
  local free = room - urls_queued()
  if free <= 0 then return end
  for _, ticket in ipairs(call('LPOP', base .. 'overflow', free) or {}) do
    call('XADD', base .. 'urls', '*', 't', ticket)
  end
end

local admitted, free, overflows
local tasks, behind, revisits = {}, {}, 0

-- Queues a URL that is not outstanding: whoever does this writes it all at the end.
local function admit(id, depth, redirects, again, domain, host, url)
  if not admitted then
    admitted = tonumber(call('HGET', base .. 'counts', 'admitted') or 0)
    free = room - urls_queued()
    overflows = call('EXISTS', base .. 'overflow') == 1
  end
  admitted = admitted + 1
  local ticket = ('%.0f'):format(admitted * partitions + partition)
  tasks[#tasks + 1] = ticket
  tasks[#tasks + 1] = cmsgpack.pack({ id, redirects, again, domain, host, url })
  call('HSET', base .. 'outstanding', id, ticket .. ' ' .. depth)
  revisits = revisits + again
  -- While the overflow is not empty, what comes joins its end.
  if overflows or free <= 0 then
    behind[#behind + 1] = ticket
    overflows = true
  else
    call('XADD', base .. 'urls', '*', 't', ticket)
    free = free - 1
  end
end

local function write_admitted()
  if not admitted then return end
  for_many('HSET', base .. 'tasks', tasks)
  for_many('RPUSH', base .. 'overflow', behind)
  call('HSET', base .. 'counts', 'admitted', ('%.0f'):format(admitted))
  if revisits > 0 then call('HINCRBY', base .. 'counts', 'revisits', revisits) end
  if overflows then fill_url_queue() end
end

---------------------------------------------------------------- the domain table and the workers' queues

local function domain_of(name)
  local state = call('HGET', base .. 'domains', name)
  if not state then return nil end
  local owner, held, waiting, hungry, lapses = state:match('^(%d+) (%d+) (%d+) (%d) (%d+)$')
  held, waiting = tonumber(held), tonumber(waiting)
  local is_held = held > 0 or waiting > 0
  return {
    owner = owner, held = held, waiting = waiting, hungry = hungry, lapses = tonumber(lapses), was_held = is_held,
  }
end

-- A domain lapses a while after its last use, and not while its owner holds anything of it.
local function write_domain(name, state)
  local is_held = state.held > 0 or state.waiting > 0
  state.lapses = now + domain_lifetime
  call('HSET', base .. 'domains', name,
    ('%s %d %d %s %.0f'):format(state.owner, state.held, state.waiting, state.hungry, state.lapses))
  if not is_held or not state.was_held then
    call('ZADD', base .. 'lapses', is_held and '+inf' or state.lapses, name)
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

-- Brings what waits for its domain's share into a worker's queue, from its domains in turn, as far as there is room.
local function feed(worker)
  if call('EXISTS', base .. 'hungry:' .. worker) == 0 then return end
  local fed, free = 0, room - queue_length(worker)
  while fed < free do
    local name = call('LPOP', base .. 'hungry:' .. worker)
    if not name then break end
    local state = domain_of(name)
    if state and state.owner == worker then
      state.hungry = '0'
      local ticket = call('LPOP', base .. 'waiting:' .. name)
      if ticket then
        state.held, state.waiting = state.held + 1, state.waiting - 1
        enqueue(worker, ticket)
        fed = fed + 1
      end
      note_hunger(name, state)
      write_domain(name, state)
    end
  end
  if fed > 0 then
    call('HINCRBY', base .. 'counts', 'waiting', 0 - fed)
    call('HINCRBY', base .. 'lengths', worker, fed)
  end
end

-- The loan of a ticket: its number, its worker, its message, and the nonce of the move that made it.
local function loan_of(ticket)
  local loan = call('HGET', base .. 'loans', ticket)
  if not loan then return nil end
  local which, worker, message, made_by = loan:match('^(%d+) (%d+) (%S+) (%S+)$')
  return { number = which, worker = worker, message = message, nonce = made_by }
end

local HOUR = 3600000

-- Notes how long a host is to be left alone from now, and the pause that it gets after every request where that is longer
-- than everybody's: should its worker die, somebody else has to know it. Both are forgotten when they can matter no more.
local function pace_host(host, rest, delay)
  if rest > 0 then
    call('ZREMRANGEBYSCORE', base .. 'rests', '-inf', now)
    -- What was learnt first may be told last: the longer rest is the one that is owed.
    call('ZADD', base .. 'rests', 'GT', now + rest, host)
  end
  if delay > 0 then
    local forgotten = call('ZRANGEBYSCORE', base .. 'delays_end', '-inf', now, 'LIMIT', 0, 100)
    for _, other in ipairs(forgotten) do
      call('HDEL', base .. 'delays', other)
      call('ZREM', base .. 'delays_end', other)
    end
    call('HSET', base .. 'delays', host, delay)
    -- Whoever has it on loan completes something of it, and tells the pause again, long before that.
    call('ZADD', base .. 'delays_end', now + HOUR + rest + 100 * delay, host)
  end
end

local function host_is_active(host, more)
  if call('HINCRBY', base .. 'active', host, more) <= 0 then call('HDEL', base .. 'active', host) end
end
