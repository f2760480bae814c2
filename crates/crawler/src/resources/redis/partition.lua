-- What the scripts of a partition share: its settings and its outstanding URLs.
local room = number()             -- the most URLs in each queue of this partition
local lifetime = number()         -- of a link, in milliseconds
local domain_lifetime = number()  -- of a domain's ownership after its last use
local keeps_depths = argument() == '1'
local partition, partitions = number(), number()  -- which this is, and of how many

-- Lua passes on only so many values at a time.
local AT_ONCE = 1000

-- Carries out a command for many values at once.
local function for_many(command, key, values)
  if #values == 0 then return {} end
  if #values <= AT_ONCE then return call(command, key, unpack(values)) end
  local answers = {}
  for first = 1, #values, AT_ONCE do
    local answer = call(command, key, unpack(values, first, math.min(first + AT_ONCE - 1, #values)))
    if type(answer) == 'table' then
      for i = 1, #answer do answers[#answers + 1] = answer[i] end
    end
  end
  return answers
end

local function count(name, more)
  return call('HINCRBY', base .. 'counts', name, more)
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

-- The ticket and the smallest depth of an outstanding URL, and the id of what it was found on, in bytes.
local function outstanding(id)
  local entry = call('HGET', base .. 'outstanding', id)
  if not entry then return nil end
  local ticket, depth, found_on = entry:match('^(%d+) (%d+) (.*)$')
  return ticket, depth + 0, found_on
end
