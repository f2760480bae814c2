-- Hosts of which a worker has a URL on loan.
local function host_is_active(host, more)
  if call('HINCRBY', base .. 'active', host, more) <= 0 then call('HDEL', base .. 'active', host) end
end
