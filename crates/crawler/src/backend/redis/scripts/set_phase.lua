-- Changes the phase of the crawl. An end is the end of the run for which it was decided, not of a later one.
local to, ending, run, metadata = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local key, current = base .. 'crawl', state()
local phase, is_current = current[1], run == current[3]
if to == 'seeding' then
  call('HSET', key, 'run', current[3] + 1, 'phase', 'seeding', 'end', '')
  local stored = call('HGET', key, 'metadata')
  if not stored or metadata ~= '' and stored ~= metadata then
    call('HSET', key, 'metadata', metadata)
    call('HINCRBY', key, 'version', 1)
  end
  call('DEL', base .. 'reports', base .. 'result', base .. 'purged')
elseif to == 'resumed' then call('HDEL', key, 'archived')
elseif to == 'running' and phase == 'seeding' and is_current then call('HSET', key, 'phase', 'running')
elseif to == 'ended' and phase == 'running' and is_current then call('HSET', key, 'phase', 'ended', 'end', ending)
elseif to == 'archived' and phase == 'ended' and is_current then call('HSET', key, 'archived', 1) end
return state()
