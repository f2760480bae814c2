-- Files a page under the bands of its sketch, the newest first and no more than anybody looks at.
local id, most, lifetime = argument(), number(), number()
for _ = 1, number() do
  local key = base .. 'band:' .. argument()
  call('LREM', key, 0, id)
  call('LPUSH', key, id)
  call('LTRIM', key, 0, most - 1)
  call('PEXPIRE', key, lifetime)
end
