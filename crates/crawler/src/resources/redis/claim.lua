-- Files a page under the hash of its body, unless another page has come to be there since that was looked at.
-- Answers the other page, or nothing.
local exact, seen, record, lifetime = argument(), argument(), argument(), number()
local there = call('GET', base .. 'exact:' .. exact) or ''
if there ~= seen and there ~= record then return there end
call('SET', base .. 'exact:' .. exact, record, 'PX', lifetime)
return ''
