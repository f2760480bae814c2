-- Stores a page: what recognises it and, where pages are stored, its body; and counts it.
local id, record, body, lifetime = argument(), argument(), argument(), number()
local expired = call('ZRANGEBYSCORE', base .. 'stored', '-inf', now)
expired[#expired + 1] = id
for _, page in ipairs(expired) do
  if call('ZREM', base .. 'stored', page) == 1 then
    call('DECRBY', base .. 'bytes', call('HGET', base .. 'sizes', page))
    call('HDEL', base .. 'sizes', page)
  end
end
call('SET', base .. 'page:' .. id, record, 'PX', lifetime)
local size = 0
if body ~= '' then
  call('SET', base .. 'body:' .. id, body, 'PX', lifetime)
  size = #body - 1  -- its first byte tells whether it is compressed
end
call('ZADD', base .. 'stored', now + lifetime, id)
call('HSET', base .. 'sizes', id, size)
call('INCRBY', base .. 'bytes', size)
