-- Redis may have lost what it did last: then loans that their worker has ended are on loan again, and nobody would end
-- them. All that the worker does not have go back into its queue. Answers the loans that ended.
local before = answered()
if before then return before end
local STEP = 1000
local worker, holder, in_hand = argument(), argument(), {}
for _ = 1, number() do
  local ticket = argument()
  in_hand[ticket] = argument()
end
local queue = base .. 'queue:' .. worker
if call('EXISTS', queue) == 0 then return answer({}) end
-- Another has its place by now. That nobody has may be what was lost.
local other = call('HGET', base .. 'holders', worker)
if holder ~= '' and other and other:match(' (.*)$') ~= holder then return answer({}) end

local lost, first = {}, '-'
while true do
  local pending = call('XPENDING', queue, 'worker', first, '+', STEP)
  for _, entry in ipairs(pending) do
    local message = call('XRANGE', queue, entry[1], entry[1])[1]
    local ticket = message and message[2][2]
    local loan = ticket and loan_of(ticket)
    if loan and loan.number ~= in_hand[ticket] then
      lose(ticket)
      call('XACK', queue, 'worker', entry[1])
      call('XDEL', queue, entry[1])
      call('XADD', queue, '*', 't', ticket)
      lost[#lost + 1] = { ticket, loan.number }
    end
  end
  if #pending < STEP then break end
  first = '(' .. pending[STEP][1]
end
write_active_hosts()
if #lost > 0 then call('HINCRBY', base .. 'lengths', worker, #lost) end
return answer(lost)
