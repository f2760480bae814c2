-- Files lent URLs in their priority queues. One that is not on loan was filed before.
local filed, messages, queues = 0, {}, {}
for _ = 1, number() do
  local ticket, queue = argument(), argument()
  local message = call('HGET', base .. 'prioritizing', ticket)
  if message then
    filed = filed + 1
    call('HDEL', base .. 'prioritizing', ticket)
    messages[filed] = message
    queues[queue] = queues[queue] or {}
    table.insert(queues[queue], ticket)
  end
end
for queue, tickets in pairs(queues) do for_many('RPUSH', base .. 'filed:' .. queue, tickets) end
for first = 1, filed, AT_ONCE do
  local last = math.min(first + AT_ONCE - 1, filed)
  call('XACK', base .. 'urls', 'prioritizer', unpack(messages, first, last))
  call('XDEL', base .. 'urls', unpack(messages, first, last))
end
if filed > 0 then call('HINCRBY', base .. 'counts', 'filed', filed) end
fill_url_queue()
