-- Counts what earlier requests of a loan read, gives back their reservation, and reserves one page, and as many bytes
-- as a page may have or as are left. Decides first, takes second.
local before = answered()
if before then return before end
local ticket, read, host = argument(), number(), argument()
if not max_pages_per_host then host = '' end
used.bytes = used.bytes + read
give_back(ticket)

local function granted(grant, bytes)
  write_used()
  return answer({ grant, bytes })
end

local why = spent()
if why then return granted(why, 0) end
local bytes_left = max_bytes - used.bytes - used.bytes_reserved
if used.pages + used.pages_reserved >= max_pages or bytes_left <= 0 then return granted('later', 0) end
if host ~= '' then
  local kept = tonumber(call('HGET', base .. 'hosts', host) or 0)
  if kept >= max_pages_per_host then return granted('host', 0) end
  local reserved = tonumber(call('HGET', base .. 'hosts_reserved', host) or 0)
  if kept + reserved >= max_pages_per_host then return granted('later', 0) end
  call('HINCRBY', base .. 'hosts_reserved', host, 1)
end
local bytes = ('%.0f'):format(math.min(max_page_bytes, bytes_left))
used.pages_reserved, used.bytes_reserved = used.pages_reserved + 1, used.bytes_reserved + bytes
call('HSET', base .. 'reservations', ticket, bytes .. ' ' .. host)
return granted('bytes', bytes)
