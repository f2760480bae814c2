-- What the scripts of the budgets share. They are in one place for the whole crawl, so that they are exact.
local max_pages, max_bytes, max_page_bytes = number(), number(), number()
local max_pages_per_host = tonumber(argument())  -- none: no limit

local function used(what)
  return tonumber(call('HGET', base .. 'used', what) or 0)
end

local function spent()
  if used('pages') >= max_pages then return 'pages' end
  if used('bytes') >= max_bytes then return 'bytes' end
end

-- Returns a reservation, if there is one: a URL has one at most, whoever has it on loan.
local function give_back(ticket)
  local reservation = call('HGET', base .. 'reservations', ticket)
  if not reservation then return end
  local bytes, host = reservation:match('^(%d+) (.*)$')
  call('HDEL', base .. 'reservations', ticket)
  call('HINCRBY', base .. 'used', 'pages_reserved', -1)
  call('HINCRBY', base .. 'used', 'bytes_reserved', 0 - bytes)
  if host ~= '' and call('HINCRBY', base .. 'hosts_reserved', host, -1) <= 0 then
    call('HDEL', base .. 'hosts_reserved', host)
  end
end
