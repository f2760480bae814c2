-- Link storage: which URLs were completed, and what became of them. Shards are hashes of ids to links. A link is, in bytes:
-- its smallest depth (2), how it ended (1), its HTTP status (2), when that was, in seconds (4), its number as a page (4), and
-- the id of what it was found on (7), if it was found on something.
local ENDED, FOUND_ON = 3, 14  -- where these begin
local HAS_LINKS = 32           -- in how it ended: there is something there that leads on
local SHARD = 32  -- entries in a shard, in the mean: a short hash is compact, and searched from end to end
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

-- The smallest depth of a completed URL, and all that is kept of it; nothing if it is not known.
local function find_link(id)
  local link = call('HGET', shard_key(id), id)
  if not link then return nil end
  return struct.unpack('<I2', link), link
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
  end
end

-- A URL that was completed is known from now on. Whoever does this writes the counts at the end.
local function keep_link(id, depth, ended, found_on)
  local link = struct.pack('<I2', math.min(depth, 65535)) .. ended .. found_on
  local is_new = call('HSET', shard_key(id), id, link) == 1
  if is_new and count('links', 1) > shards * SHARD then split_shard() end
end
