-- Notes how long a host is to be left alone from now, and the pause that it gets after every request.
local host, rest, delay = argument(), number(), number()
pace_host(host, rest, delay)
