-- What the scripts of a partition share: its settings and its outstanding URLs.
local room = number()             -- the most URLs in each queue of this partition
local lifetime = number()         -- of what a finished crawl leaves, in milliseconds
local domain_lifetime = number()  -- of a domain's ownership after its last use
local keeps_depths = argument() == '1'
local partition, partitions = number(), number()  -- which this is, and of how many

-- What is counted here, read once and written once.
local COUNTS = {
  'admitted', 'completed', 'filed', 'links', 'links_known', 'links_new', 'loans', 'revisits', 'shards', 'waiting',
}
local counts
local changed_counts = {}

local function read_counts()
  counts = {}
  for i, value in ipairs(call('HMGET', base .. 'counts', unpack(COUNTS))) do counts[COUNTS[i]] = (value or 0) + 0 end
end

local function counted(name)
  if not counts then read_counts() end
  return counts[name]
end

-- Counts so many more; answers how many there are. Whoever does this writes the counts at the end.
local function count(name, more)
  local sum = counted(name) + more
  counts[name], changed_counts[name] = sum, sum
  return sum
end

local function write_counts()
  local changed = {}
  for name, sum in pairs(changed_counts) do changed[#changed + 1], changed[#changed + 2] = name, ('%d'):format(sum) end
  for_many('HSET', base .. 'counts', changed)
end

local sums = {}

-- Adds to a field of a hash. Whoever does this writes the sums at the end: several ends of loans add to the same fields.
local function add(hash, field, more)
  local fields = sums[hash]
  if not fields then
    fields = {}
    sums[hash] = fields
  end
  fields[field] = (fields[field] or 0) + more
end

local function write_sums()
  for hash, fields in pairs(sums) do
    for field, more in pairs(fields) do call('HINCRBY', base .. hash, field, ('%d'):format(more)) end
  end
end

-- A task: id, redirects, again, domain, host, URL.
local function task_of(ticket)
  return cmsgpack.unpack(call('HGET', base .. 'tasks', ticket))
end

-- The name under which what concerns all hosts of a domain is kept, beside what concerns each.
local function site_of(domain)
  return '*.' .. domain
end

-- The smallest depth of an outstanding URL, and the id of what it was found on, in bytes.
local function read_outstanding(entry)
  local depth, found_on = entry:match('^%d+ (%d+) (.*)$')
  return depth + 0, found_on
end
