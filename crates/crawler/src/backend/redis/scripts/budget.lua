-- What the scripts of the budgets share. They are in one place for the whole crawl, so that they are exact.
local max_pages, max_bytes, max_page_bytes = number(), number(), number()
local max_pages_per_host, max_pages_per_site = tonumber(argument()), tonumber(argument())  -- none: no limit

-- What was used and what is reserved, read once and written once: everybody comes here.
local used = {}
do
  local names = { 'pages', 'bytes', 'received', 'pages_reserved', 'bytes_reserved' }
  for i, value in ipairs(call('HMGET', base .. 'used', unpack(names))) do used[names[i]] = (value or 0) + 0 end
end

-- The reservations of loans by their tickets, and those of them that have changed: false where there is none.
local reservations, changed_reservations = {}, {}

-- Looks up many at once: to look for each alone is dear.
local function look_up_reservations(tickets)
  for i, reservation in ipairs(for_many('HMGET', base .. 'reservations', tickets)) do
    reservations[tickets[i]] = reservation
  end
end

local function set_reservation(ticket, reservation)
  reservations[ticket], changed_reservations[ticket] = reservation, reservation
end

local function write_reservations()
  local made, returned = {}, {}
  for ticket, reservation in pairs(changed_reservations) do
    if reservation then
      made[#made + 1], made[#made + 2] = ticket, reservation
    else
      returned[#returned + 1] = ticket
    end
  end
  for_many('HSET', base .. 'reservations', made)
  for_many('HDEL', base .. 'reservations', returned)
end

local function write_used()
  write_reservations()
  call('HSET', base .. 'used', 'pages', ('%d'):format(used.pages), 'bytes', ('%d'):format(used.bytes),
    'received', ('%d'):format(used.received),
    'pages_reserved', ('%d'):format(used.pages_reserved), 'bytes_reserved', ('%d'):format(used.bytes_reserved))
end

-- Counts the bytes of bodies, decoded and as received.
local function count_read(decoded, received)
  used.bytes, used.received = used.bytes + decoded, used.received + received
end

-- What counts against the limit on bytes, which applies to both.
local function bytes_counted()
  return math.max(used.bytes, used.received)
end

local function spent()
  if used.pages >= max_pages then return 'pages' end
  if bytes_counted() >= max_bytes then return 'bytes' end
end

-- Returns the reservation of a loan, which was looked up, if there is one. A URL has one at most, whoever has it on loan; who
-- lost it to somebody else has none. Tells whether the loan is the latest of its URL that is known here.
local function give_back(ticket, loan)
  local reservation = reservations[ticket]
  if not reservation then return true end
  local by, bytes, pages, host, site = reservation:match('^(%d+) (%d+) (%d) (%S*) (%S*)')
  if by + 0 > loan + 0 then return false end
  set_reservation(ticket, false)
  used.pages_reserved = used.pages_reserved - pages
  used.bytes_reserved = used.bytes_reserved - bytes
  for _, name in ipairs({ host, site }) do
    if name ~= '' and call('HINCRBY', base .. 'hosts_reserved', name, -1) <= 0 then
      call('HDEL', base .. 'hosts_reserved', name)
    end
  end
  return true
end

-- Counts what a loan used and returns the rest; answers the number of a page that is kept, or 0.
local function settle(ticket, loan, kept, decoded, received, host, site)
  count_read(decoded, received)
  give_back(ticket, loan)
  if not kept then return 0 end
  if max_pages_per_host then call('HINCRBY', base .. 'hosts', host, '1') end
  if max_pages_per_site then call('HINCRBY', base .. 'hosts', site, '1') end
  used.pages = used.pages + 1
  return used.pages
end
