-- The budgets of a crawl that goes on. Reservations that have expired are no more.
for _, name in ipairs({ 'reservations', 'settled', 'hosts', 'hosts_reserved' }) do call('PERSIST', base .. name) end
if call('EXISTS', base .. 'reservations') == 0 then
  call('HSET', base .. 'used', 'pages_reserved', 0, 'bytes_reserved', 0)
  call('UNLINK', base .. 'hosts_reserved')
end
