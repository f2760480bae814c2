-- A process has a worker's place: from here on, it alone is lent what is sent to that worker.
local worker, holder = argument(), argument()
call('HSET', base .. 'holders', worker, holder)
