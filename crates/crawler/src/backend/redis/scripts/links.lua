-- Link storage: which URLs were completed and are not forgotten, and what became of them. Shards are hashes of ids to
-- links. A link is, in bytes: the generation in which it was last met (6), its smallest depth (2), how it ended (1), its
-- HTTP status (2), when that was, in seconds (4), its number as a page (4), and the id of what it was found on (7), if it
-- was found on something.
local ENDED, FOUND_ON = 9, 20  -- where these begin
local HAS_LINKS = 32           -- in how it ended: there is something there that leads on
local SHARD = 32        -- entries in a shard, in the mean: a short hash is compact, and searched from end to end
local GENERATIONS = 12  -- parts of a lifetime
local SWEEP = 16        -- after so many new entries another shard gets rid of what is over
local generation_time = math.max(1, math.ceil(lifetime / GENERATIONS))
local generation = math.floor(now / generation_time)
local shards, half

-- Linear hashing: shards are split one by one, in turn, as entries come.
local function shard_of(id)
  local hash = id:sub(-9) + 0  -- ids have more digits than Lua's numbers are exact to
  local shard = hash % (half * 2)
  return shard < shards and shard or hash % half
end

local function set_shards(number)
  shards, half = number, 1
  while half * 2 <= shards do half = half * 2 end
end

local function shard_key(id)
  if not shards then set_shards(math.max(counted('shards'), 1)) end
  return base .. 'links:' .. shard_of(id)
end

-- A shard lives longer than anything in it matters, and whoever writes to it lets it live on.
local SHARD_LIFETIME = ('%d'):format(lifetime + 3 * generation_time)

-- Whoever meets a URL need not tell that for a generation: so one that was told of is known for a lifetime after that,
-- and for up to one generation longer.
local function is_over(met)
  return generation - met >= GENERATIONS + 2
end

-- When a completed URL was last met, its smallest depth, and all that is kept of it; nothing if it is not known.
local function find_link(id)
  local link = call('HGET', shard_key(id), id)
  if not link then return nil end
  local met, depth = struct.unpack('<I6I2', link)
  if is_over(met) then return nil end
  return met, depth, link
end

local function has_links(link)
  return math.floor(link:byte(ENDED) / HAS_LINKS) % 2 == 1
end

-- How a link that is kept ended; what comes before it and after it may change.
local function end_of(link)
  return link:sub(ENDED, FOUND_ON - 1)
end

local function split_shard()
  local from, target = base .. 'links:' .. shards - half, base .. 'links:' .. shards
  local stays = shards - half
  set_shards(shards + 1)
  count('shards', shards - counted('shards'))
  local entries, gone, added = call('HGETALL', from), {}, {}
  for i = 1, #entries, 2 do
    if shard_of(entries[i]) ~= stays then
      gone[#gone + 1] = entries[i]
      added[#added + 1], added[#added + 2] = entries[i], entries[i + 1]
    end
  end
  if #gone > 0 then
    for_many('HDEL', from, gone)
    for_many('HSET', target, added)
    call('PEXPIRE', target, SHARD_LIFETIME)
  end
end

-- Forgets what is over in the shard whose turn it is; answers how many.
local function sweep_shard(links)
  local key = base .. 'links:' .. count('swept', 1) % shards
  local entries, over = call('HGETALL', key), {}
  for i = 1, #entries, 2 do
    if is_over((struct.unpack('<I6', entries[i + 1]))) then over[#over + 1] = entries[i] end
  end
  for_many('HDEL', key, over)
  -- A shard that is gone expired with all it had: about as many as the others have.
  return #entries == 0 and math.floor(links / shards) or #over
end

-- A URL that was completed is known for a lifetime from now. Whoever does this writes the counts at the end.
local function keep_link(id, depth, ended, found_on)
  local key = shard_key(id)
  local link = struct.pack('<I6I2', generation, math.min(depth, 65535)) .. ended .. found_on
  local is_new = call('HSET', key, id, link) == 1
  call('PEXPIRE', key, SHARD_LIFETIME)
  if not is_new then return end
  local links = count('links', 1)
  if links % SWEEP == 0 then
    local over = sweep_shard(links)
    if over > 0 then links = count('links', 0 - over) end
  end
  if links > shards * SHARD then split_shard() end
end
