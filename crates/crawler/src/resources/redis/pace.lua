-- Notes how long a host is to be left alone from now.
local host, rest = argument(), number()
call('ZREMRANGEBYSCORE', base .. 'rests', '-inf', now)
call('ZADD', base .. 'rests', now + rest, host)
