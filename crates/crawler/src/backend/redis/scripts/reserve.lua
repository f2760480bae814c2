-- Counts what earlier requests of loans read, gives back their reservations, and reserves for each one page, if it may
-- become one, and as many bytes as a page may have or as are left. Decides first, takes second.
--
-- Less than a page may have is given only where no more is left and nobody has reserved any of it: what others have
-- reserved mostly comes back, and a page must not be cut for it.
local is_here = argument() == '1'   -- the loans, so that nobody else need look whether they hold
local is_once = argument() == '1'   -- without anything to count it may be made twice: a loan has one reservation
local before = is_once and answered()
if before then return before end

local tickets = {}
for i = 1, number() do tickets[i] = argument() end
local loans = is_here and for_many('HMGET', base .. 'loans', tickets)
look_up_reservations(tickets)

-- Why no page of a host or a site can be reserved, if it cannot: those that are left are reserved, or there are none.
local function refusal(name, most, spent_as)
  if name == '' then return nil end
  local kept = (call('HGET', base .. 'hosts', name) or 0) + 0
  if kept >= most then return spent_as end
  local reserved = (call('HGET', base .. 'hosts_reserved', name) or 0) + 0
  if kept + reserved >= most then return 'later' end
end

local function reserve(ticket, holds, loan, decoded, received, page, host, site)
  if is_here and (not holds or holds:sub(1, #loan + 1) ~= loan .. ' ') then return 'lost', 0 end
  if not give_back(ticket, loan) then return 'lost', 0 end
  count_read(decoded, received)
  if page == 0 or not max_pages_per_host then host = '' end
  if page == 0 or not max_pages_per_site then site = '' end
  local why = spent()
  if why then return why, 0 end
  local left = max_bytes - bytes_counted()
  local bytes = math.min(max_page_bytes, left)
  if used.bytes_reserved + bytes > left or page == 1 and used.pages + used.pages_reserved >= max_pages then
    return 'later', 0
  end
  local refused = refusal(host, max_pages_per_host, 'host') or refusal(site, max_pages_per_site, 'site')
  if refused then return refused, 0 end
  for _, name in ipairs({ host, site }) do
    if name ~= '' then call('HINCRBY', base .. 'hosts_reserved', name, '1') end
  end
  used.pages_reserved, used.bytes_reserved = used.pages_reserved + page, used.bytes_reserved + bytes
  bytes = ('%d'):format(bytes)
  set_reservation(ticket, long('%s %s %d %s %s', loan, bytes, page, host, site))
  return 'granted', bytes
end

local grants = {}
for i, ticket in ipairs(tickets) do
  local loan, decoded, received = argument(), number(), number()
  local page, host, site = number(), argument(), argument()
  grants[i] = { reserve(ticket, loans and loans[i], loan, decoded, received, page, host, site) }
end
write_used()
return is_once and answer(grants) or grants
