-- Hosts: of which a worker has a URL on loan, and when they may be asked again.
local HOUR = 3600000

local function host_is_active(host, more)
  if call('HINCRBY', base .. 'active', host, more) <= 0 then call('HDEL', base .. 'active', host) end
end

-- Notes how long a host is to be left alone from now, and the pause that it gets after every request where that is longer
-- than everybody's: should its worker die, somebody else has to know it. Both are forgotten when they can matter no more.
local function pace_host(host, rest, delay)
  if rest > 0 then
    call('ZREMRANGEBYSCORE', base .. 'rests', '-inf', now)
    -- What was learnt first may be told last: the longer rest is the one that is owed.
    call('ZADD', base .. 'rests', 'GT', now + rest, host)
  end
  if delay > 0 then
    local forgotten = call('ZRANGEBYSCORE', base .. 'delays_end', '-inf', now, 'LIMIT', 0, 100)
    for _, other in ipairs(forgotten) do
      call('HDEL', base .. 'delays', other)
      call('ZREM', base .. 'delays_end', other)
    end
    call('HSET', base .. 'delays', host, delay)
    -- Whoever has it on loan completes something of it, and tells the pause again, long before that.
    call('ZADD', base .. 'delays_end', now + HOUR + rest + 100 * delay, host)
  end
end
