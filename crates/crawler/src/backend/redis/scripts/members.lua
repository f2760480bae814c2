local base, call, time = KEYS[1], redis.call, redis.call('TIME')
local now = ('%.0f'):format(time[1] * 1000 + math.floor(time[2] / 1000))
-- The crawl's phase ('purged' for a while after a purge), end, run, version of settings, elapsed time, whether it is archived,
-- version of what was changed since it started, whether an observer reads its statistics.
local function state()
  local state = call('HMGET', base .. 'crawl', 'phase', 'end', 'run', 'version', 'elapsed', 'archived', 'live')
  for i = 3, 7 do state[i] = tonumber(state[i] or 0) end
  state[1], state[2] = state[1] or call('EXISTS', base .. 'purged') == 1 and 'purged' or '', state[2] or ''
  state[8] = call('EXISTS', base .. 'watched')
  return state
end
