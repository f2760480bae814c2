-- A process takes up the place of one that is no more, under the same number: what that had on loan goes back into its
-- queue, where it was, and the queue and the domains stay its own. Answers the loans that ended.
local before = answered()
if before then return before end
local STEP = 1000
local worker = argument()
local queue = base .. 'queue:' .. worker
-- Where nothing is left of a crawl that is over, nothing is begun.
local is_closed = call('HEXISTS', base .. 'counts', 'closed') == 1
if is_closed and call('HEXISTS', base .. 'lengths', worker) == 0 then return answer({}) end
local begun = redis.pcall('XGROUP', 'CREATE', queue, 'worker', '0', 'MKSTREAM')
-- It was there before; or memory is full, which has to be known.
if begun.err and not begun.err:find('BUSYGROUP', 1, true) then return begun end

local lost, first = {}, '-'
while true do
  local pending = call('XPENDING', queue, 'worker', first, '+', STEP)
  for _, entry in ipairs(pending) do
    local message = call('XRANGE', queue, entry[1], entry[1])[1]
    local loan = message and lose(message[2][2])
    if loan then lost[#lost + 1] = { message[2][2], loan } end
  end
  if #pending < STEP then break end
  first = '(' .. pending[STEP][1]
end
write_active_hosts()
throw_away_completed(queue)
-- A group that begins anew is given everything again that is still there, in its order.
call('XGROUP', 'DESTROY', queue, 'worker')
call('XGROUP', 'CREATE', queue, 'worker', '0')
call('HSET', base .. 'lengths', worker, call('XLEN', queue))
return answer(lost)
