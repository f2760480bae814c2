-- A worker is no more: its loans return, its queue is routed anew, its domains are free. Answers which loans ended.
local before = answered()
if before then return before end
local worker = argument()
local returned, lost = {}, {}
for _, ticket in ipairs(queued_tickets(worker)) do
  returned[#returned + 1] = ticket
  local loan = loan_of(ticket)
  if loan then
    lost[#lost + 1] = { ticket, loan.number }
    call('HDEL', base .. 'loans', ticket)
    call('HDEL', base .. 'endings', ticket)
    host_is_active(task_of(ticket)[5], -1)
  end
end
local domains = call('HGETALL', base .. 'domains')
for i = 1, #domains, 2 do
  local name = domains[i]
  if domains[i + 1]:match('^%d+') == worker then
    local waiting = call('LRANGE', base .. 'waiting:' .. name, 0, -1)
    for _, ticket in ipairs(waiting) do returned[#returned + 1] = ticket end
    call('HINCRBY', base .. 'counts', 'waiting', 0 - #waiting)
    call('DEL', base .. 'waiting:' .. name)
    call('HDEL', base .. 'domains', name)
    call('ZREM', base .. 'lapses', name)
  end
end
call('DEL', base .. 'queue:' .. worker, base .. 'hungry:' .. worker)
call('HDEL', base .. 'lengths', worker)
table.sort(returned, function(a, b) return tonumber(a) < tonumber(b) end)
for _, ticket in ipairs(returned) do call('RPUSH', base .. 'returned', ticket) end
return answer(lost)
