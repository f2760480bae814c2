-- Hosts: of which a worker has a URL on loan, and when they may be asked again.
local HOUR = 3600000

-- How many more, or fewer, loans are of each host.
local activity = {}

-- Whoever does this writes the active hosts at the end: many loans are of the same few.
local function host_is_active(host, more)
  activity[host] = (activity[host] or 0) + more
end

local function write_active_hosts()
  local hosts, active, idle = {}, {}, {}
  for host in pairs(activity) do hosts[#hosts + 1] = host end
  for i, before in ipairs(for_many('HMGET', base .. 'active', hosts)) do
    local loans = (before or 0) + activity[hosts[i]]
    if loans > 0 then
      active[#active + 1], active[#active + 2] = hosts[i], ('%d'):format(loans)
    elseif before then
      idle[#idle + 1] = hosts[i]
    end
  end
  for_many('HSET', base .. 'active', active)
  for_many('HDEL', base .. 'active', idle)
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
