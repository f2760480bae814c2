-- Admission, and the URL queue.
local MOST_DOMAINS = 200000  -- in a partition's count of who links to them

-- URLs in the queue, those on loan to the prioritizer left out.
local function urls_queued()
  return call('XLEN', base .. 'urls') - call('HLEN', base .. 'prioritizing')
end

-- Brings what waits in the overflow into the URL queue, in order, as far as there is room.
local function fill_url_queue()
  if call('EXISTS', base .. 'overflow') == 0 then return end
  local free = room - urls_queued()
  if free <= 0 then return end
  for _, ticket in ipairs(call('LPOP', base .. 'overflow', free) or {}) do
    call('XADD', base .. 'urls', '*', 't', ticket)
  end
end

local found_on = ''  -- the id of the page whose links are admitted, in bytes
local free, overflows
local tasks, behind, entries, fresh, unwritten = {}, {}, {}, {}, {}
local gone = {}  -- ids of what is completed by this script, and not outstanding any more

-- Queues a URL that is not outstanding, for its links only if it is visited again. Whoever does this writes it all at the end.
local function admit(id, depth, redirects, again, domain, host, url)
  if not free then
    free = room - urls_queued()
    overflows = call('EXISTS', base .. 'overflow') == 1
  end
  local ticket = ('%d'):format(count('admitted', 1) * partitions + partition)
  tasks[#tasks + 1], tasks[#tasks + 2] = ticket, cmsgpack.pack({ id, redirects, again, domain, host, url })
  fresh[id] = ticket .. ' ' .. depth .. ' ' .. found_on
  unwritten[id] = true
  entries[#entries + 1], entries[#entries + 2] = id, fresh[id]
  if again > 0 then count('revisits', again) end
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
  if not free then return end
  for_many('HSET', base .. 'outstanding', entries)
  for_many('HSET', base .. 'tasks', tasks)
  for_many('RPUSH', base .. 'overflow', behind)
  if overflows then fill_url_queue() end
end

-- Meets a URL whose entry among the outstanding ones was looked up; tells whether it is new.
local function meet(id, entry, depth, redirects, domain, host, url)
  if fresh[id] or entry and not gone[id] then
    if keeps_depths then
      local ticket, smallest = (fresh[id] or entry):match('^(%d+) (%d+)')
      if depth < smallest + 0 then
        fresh[id] = ticket .. ' ' .. depth .. ' ' .. found_on
        if unwritten[id] then
          entries[#entries + 1], entries[#entries + 2] = id, fresh[id]
        else
          -- At once: its loan may end in this very script.
          call('HSET', base .. 'outstanding', id, fresh[id])
        end
      end
    end
    return false
  end
  local smallest, link = find_link(id)
  if not link then
    admit(id, depth, redirects, 0, domain, host, url)
    return true
  end
  if keeps_depths and depth < smallest then
    -- Only what has links is visited again for them.
    if has_links(link) then
      admit(id, depth, redirects, 1, domain, host, url)
    else
      keep_link(id, depth, end_of(link), found_on)
    end
  end
  return false
end

local has_room_for_domains

-- Counts a page for a domain that it links to. When there is no room for more domains, those that are there still count.
local function count_linked(domain)
  if has_room_for_domains == nil then has_room_for_domains = call('HLEN', base .. 'popularity') < MOST_DOMAINS end
  if has_room_for_domains or call('HEXISTS', base .. 'popularity', domain) == 1 then add('popularity', domain, 1) end
end

-- Counts the page for the domains that it links to, and admits what was found, as it is told: the id of the page, the
-- domains, the ids of all that was found, and for each host its domain, the depth, the redirects, and the URLs in the
-- order of their ids. Answers how many were new, and how many were known. What is refused is only read. Whoever does this
-- writes what was admitted at the end, the counts and the sums.
local function admit_found(is_refused)
  found_on = argument()
  for _ = 1, number() do
    local domain = argument()
    if not is_refused then count_linked(domain) end
  end
  local ids = {}
  for i = 1, number() do ids[i] = argument() end
  local there = for_many('HMGET', base .. 'outstanding', ids)
  local new, known, at = 0, 0, 0
  for _ = 1, number() do
    local domain, host, depth, redirects, many = argument(), argument(), number(), number(), number()
    for _ = 1, many do
      local url = argument()
      at = at + 1
      if not is_refused and meet(ids[at], there[at], depth, redirects, domain, host, url) then
        new = new + 1
      else
        known = known + 1
      end
    end
  end
  return new, known
end
