-- What the scripts of the budgets share. They are in one place for the whole crawl, so that they are exact.
local max_pages, max_bytes, max_page_bytes = number(), number(), number()
local max_pages_per_host = tonumber(argument())  -- none: no limit

-- What was used and what is reserved, read once and written once: everybody comes here.
local used = {}
do
  local names = { 'pages', 'bytes', 'pages_reserved', 'bytes_reserved' }
  for i, value in ipairs(call('HMGET', base .. 'used', unpack(names))) do used[names[i]] = (value or 0) + 0 end
end

local function write_used()
  call('HSET', base .. 'used', 'pages', ('%d'):format(used.pages), 'bytes', ('%d'):format(used.bytes),
    'pages_reserved', ('%d'):format(used.pages_reserved), 'bytes_reserved', ('%d'):format(used.bytes_reserved))
end

local function spent()
  if used.pages >= max_pages then return 'pages' end
  if used.bytes >= max_bytes then return 'bytes' end
end

-- Returns the reservation of a loan, if there is one. A URL has one at most, whoever has it on loan; who lost it to
-- somebody else has none. Tells whether the loan is the latest of its URL that is known here.
local function give_back(ticket, loan)
  local reservation = call('HGET', base .. 'reservations', ticket)
  if not reservation then return true end
  local by, bytes, pages, host = reservation:match('^(%d+) (%d+) (%d) (.*)$')
  if by + 0 > loan + 0 then return false end
  call('HDEL', base .. 'reservations', ticket)
  used.pages_reserved = used.pages_reserved - pages
  used.bytes_reserved = used.bytes_reserved - bytes
  if host ~= '' and call('HINCRBY', base .. 'hosts_reserved', host, -1) <= 0 then
    call('HDEL', base .. 'hosts_reserved', host)
  end
  return true
end

-- Counts what a loan used and returns the rest; answers the number of a page that is kept, or 0.
local function settle(ticket, loan, kept, bytes, host)
  used.bytes = used.bytes + bytes
  give_back(ticket, loan)
  if not kept then return 0 end
  if max_pages_per_host then call('HINCRBY', base .. 'hosts', host, '1') end
  used.pages = used.pages + 1
  return used.pages
end
