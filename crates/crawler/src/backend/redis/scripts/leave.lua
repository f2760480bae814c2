-- A worker is no more: its loans return, its queue is routed anew, its domains are free. It is done in steps, so that
-- nobody waits long, however much there is. Answers where to go on, which is nowhere when all is done, and the loans
-- that ended.
local before = answered()
if before then return before end
local STEP = 1000
local worker, cursor = argument(), argument()
local queue = base .. 'queue:' .. worker
local returned, lost = {}, {}

local function done(go_on)
  table.sort(returned, function(a, b) return tonumber(a) < tonumber(b) end)
  for_many('RPUSH', base .. 'returned', returned)
  write_active_hosts()
  return answer({ go_on, lost })
end

-- Nobody sends it anything from here on: what is of its domains is held back until they are free.
call('HDEL', base .. 'lengths', worker)
call('HDEL', base .. 'holders', worker)
local messages = {}
for i, message in ipairs(call('XRANGE', queue, '-', '+', 'COUNT', STEP)) do
  local ticket = message[2][2]
  messages[i] = message[1]
  -- Messages of what is completed may still be there.
  if call('HEXISTS', base .. 'tasks', ticket) == 1 then
    returned[#returned + 1] = ticket
    local loan = lose(ticket)
    if loan then lost[#lost + 1] = { ticket, loan } end
  end
end
for_many('XDEL', queue, messages)
if #messages == STEP then return done(cursor) end

local scanned = call('HSCAN', base .. 'domains', cursor, 'COUNT', STEP)
for i = 1, #scanned[2], 2 do
  local name = scanned[2][i]
  if scanned[2][i + 1]:match('^%d+') == worker then
    local waiting = call('LPOP', base .. 'waiting:' .. name, STEP) or {}
    for _, ticket in ipairs(waiting) do returned[#returned + 1] = ticket end
    call('HINCRBY', base .. 'counts', 'waiting', 0 - #waiting)
    if #waiting < STEP then
      call('HDEL', base .. 'domains', name)
      call('ZREM', base .. 'lapses', name)
    end
    -- Those that are left are looked at again.
    if #returned >= STEP then return done(cursor) end
  end
end
if scanned[1] ~= '0' then return done(scanned[1]) end
call('DEL', queue, base .. 'hungry:' .. worker)
return done('')
