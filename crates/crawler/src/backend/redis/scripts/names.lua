-- The names of what a partition has while its crawl is under way, by how long they matter after that.
local queues = number()  -- priority queues

-- What stands for URLs that are outstanding: one key of it means nothing without the others.
local function of_urls()
  local names = {
    'urls', 'overflow', 'lengths', 'holders', 'returned', 'tasks', 'outstanding', 'prioritizing', 'loans', 'endings', 'active',
  }
  for queue = 0, queues - 1 do names[#names + 1] = 'filed:' .. queue end
  for _, worker in ipairs(call('HKEYS', base .. 'lengths')) do
    names[#names + 1] = 'queue:' .. worker
    names[#names + 1] = 'hungry:' .. worker
  end
  return names
end

local OF_LINKS = { 'popularity' }
local OF_DOMAINS = { 'domains', 'lapses' }
local OF_HOSTS = { 'rests', 'delays', 'delays_end' }

local function for_each(names, command, ...)
  for _, name in ipairs(names) do call(command, base .. name, ...) end
end
