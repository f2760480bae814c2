-- A process has a worker's place since then: from here on, it alone is lent what is sent to that worker, unless another has
-- taken the place after it.
local worker, holder, since = argument(), argument(), number()
local there = call('HGET', base .. 'holders', worker)
if there and tonumber(there:match('^%d+')) > since then return end
call('HSET', base .. 'holders', worker, ('%.0f %s'):format(since, holder))
