-- What the scripts of a partition share: its settings, link storage, the URL queue, the domain table, the workers' queues.
local room = number()             -- the most URLs in each queue of this partition
local lifetime = number()         -- of a link, in milliseconds
local domain_lifetime = number()  -- of a domain's ownership after its last use
local keeps_depths = argument() == '1'

local SHARE = 64        -- URLs of one domain in its owner's queue and hands
local GENERATIONS = 8   -- parts of a link's lifetime: what is forgotten is forgotten up to one too late
-- Entries in a shard, in the mean. Integer sets stay compact up to 512; hashes are searched from end to end.
local SHARD = keeps_depths and 32 or 256

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

local function shard_add(key, id, depth)
  if keeps_depths then call('HSET', key, id, depth) else call('SADD', key, id) end
  call('PEXPIRE', key, lifetime + 2 * generation_time)
end

local function split_shard(which)
  local state = generations[which]
  local _, low = shard_of('0', state.shards)
  local from = state.shards - low
  state.shards = state.shards + 1
  local key, target = shard_key(which, from), shard_key(which, state.shards - 1)
  local entries = call(keeps_depths and 'HGETALL' or 'SMEMBERS', key)
  for i = 1, #entries, keeps_depths and 2 or 1 do
    if shard_of(entries[i], state.shards) ~= from then
      call(keeps_depths and 'HDEL' or 'SREM', key, entries[i])
      shard_add(target, entries[i], entries[i + 1])
    end
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
  shard_add(shard_key(generation, (shard_of(id, state.shards))), id, depth)
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

---------------------------------------------------------------- the domain table and the workers' queues

local function domain_of(name)
  local state = call('HGET', base .. 'domains', name)
  if not state then return nil end
  local owner, held, hungry, lapses = state:match('^(%d+) (%d+) (%d) (%d+)$')
  return { owner = owner, held = tonumber(held), hungry = hungry, lapses = tonumber(lapses) }
end

-- A domain lapses a while after its last use, and not while its owner holds anything of it.
local function write_domain(name, state)
  local held = state.held > 0 or state.hungry == '1'
  state.lapses = now + domain_lifetime
  call('HSET', base .. 'domains', name,
    ('%s %d %s %.0f'):format(state.owner, state.held, state.hungry, state.lapses))
  call('ZADD', base .. 'lapses', held and '+inf' or state.lapses, name)
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
  if state.hungry == '0' and state.held < SHARE and call('EXISTS', base .. 'waiting:' .. name) == 1 then
    state.hungry = '1'
    call('RPUSH', base .. 'hungry:' .. state.owner, name)
  end
end

local function queue_length(worker)
  return tonumber(call('HGET', base .. 'lengths', worker) or room)
end

local function enqueue(worker, ticket)
  call('XADD', base .. 'queue:' .. worker, '*', 't', ticket)
  call('HINCRBY', base .. 'lengths', worker, 1)
end

-- Brings what waits for its domain's share into a worker's queue, from its domains in turn, as far as there is room.
local function feed(worker)
  local free = room - queue_length(worker)
  while free > 0 do
    local name = call('LPOP', base .. 'hungry:' .. worker)
    if not name then return end
    local state = domain_of(name)
    if state and state.owner == worker then
      state.hungry = '0'
      local ticket = call('LPOP', base .. 'waiting:' .. name)
      if ticket then
        call('HINCRBY', base .. 'counts', 'waiting', -1)
        state.held = state.held + 1
        enqueue(worker, ticket)
        free = free - 1
      end
      note_hunger(name, state)
      write_domain(name, state)
    end
  end
end

-- The loan of a ticket: its number, its worker, its message, and the nonce of the move that made it.
local function loan_of(ticket)
  local loan = call('HGET', base .. 'loans', ticket)
  if not loan then return nil end
  local which, worker, message, made_by = loan:match('^(%d+) (%d+) (%S+) (%S+)$')
  return { number = which, worker = worker, message = message, nonce = made_by }
end

local function host_is_active(host, more)
  if call('HINCRBY', base .. 'active', host, more) <= 0 then call('HDEL', base .. 'active', host) end
end
