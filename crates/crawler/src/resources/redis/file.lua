-- Files lent URLs in their priority queues. One that is not on loan was filed before.
for _ = 1, number() do
  local ticket, queue = argument(), argument()
  local message = call('HGET', base .. 'prioritizing', ticket)
  if message then
    call('HDEL', base .. 'prioritizing', ticket)
    call('XACK', base .. 'urls', 'prioritizer', message)
    call('XDEL', base .. 'urls', message)
    call('RPUSH', base .. 'filed:' .. queue, ticket)
  end
end
fill_url_queue()
