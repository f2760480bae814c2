-- Forgets a page that somebody else stored at the same moment, under another URL.
local id = argument()
call('DEL', base .. 'page:' .. id, base .. 'body:' .. id)
if call('ZREM', base .. 'stored', id) == 1 then
  call('DECRBY', base .. 'bytes', call('HGET', base .. 'sizes', id))
  call('HDEL', base .. 'sizes', id)
end
