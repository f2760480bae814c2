-- Lends a worker URLs from its own queue. What was lent under the same nonce, and its answer lost, is lent once.
local worker, max = argument(), number()
local stream = base .. 'queue:' .. worker
if call('HEXISTS', base .. 'lengths', worker) == 0 then
  -- Who still asks after the end leaves nothing behind.
  if call('HEXISTS', base .. 'counts', 'closed') == 1 then return {} end
  call('HSET', base .. 'lengths', worker, 0)
  redis.pcall('XGROUP', 'CREATE', stream, 'worker', '0', 'MKSTREAM')
end
local leases = {}

-- Answers the host.
local function lend(ticket, loan)
  local id, redirects, again, _, host, url = unpack(task_of(ticket))
  local _, depth = outstanding(id)
  local until_then = tonumber(call('ZSCORE', base .. 'rests', host) or 0)
  leases[#leases + 1] = { ticket, loan, url, depth, redirects, again, math.max(0, until_then - now) }
  return host
end

if not call('SET', base .. 'answer:' .. nonce, 1, 'NX', 'EX', ANSWER_LIFETIME) then
  for _, ticket in ipairs(call('HKEYS', base .. 'loans')) do
    local loan = loan_of(ticket)
    if loan.nonce == nonce then lend(ticket, loan.number) end
  end
  return leases
end

local read = call('XREADGROUP', 'GROUP', 'worker', 'worker', 'COUNT', max, 'STREAMS', stream, '>')
for _, message in ipairs(read and read[1][2] or {}) do
  local ticket = message[2][2]
  local loan = call('HINCRBY', base .. 'counts', 'loans', 1)
  call('HSET', base .. 'loans', ticket, ('%.0f %s %s %s'):format(loan, worker, message[1], nonce))
  host_is_active(lend(ticket, loan), 1)
end
call('HINCRBY', base .. 'lengths', worker, 0 - #leases)
feed(worker)
return leases
