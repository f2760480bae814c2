-- Changes the phase of the crawl. An end is the end of the run for which it was decided, not of a later one.
local to, ending, run, metadata, change = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local key, current = base .. 'crawl', state()
local phase, is_current = current[1], run == current[3]
if to == 'seeding' then
  call('HSET', key, 'run', current[3] + 1, 'phase', 'seeding', 'end', '')
  local stored = call('HGET', key, 'metadata')
  if not stored or metadata ~= '' and stored ~= metadata then
    call('HSET', key, 'metadata', metadata)
    -- Processes that run learn of more seeds without new settings.
    if not stored or change ~= 'seeds' then call('HINCRBY', key, 'version', 1) end
  end
  -- What was changed in an earlier run is undone.
  local undone = phase == 'ended' and call('HDEL', key, 'changes') == 1
  if change ~= '' or undone then call('HINCRBY', key, 'live', 1) end
  -- Seeds that are added to a run do not remove the reports of its processes.
  if phase ~= 'seeding' and phase ~= 'running' then call('DEL', base .. 'reports') end
  call('DEL', base .. 'result', base .. 'purged')
elseif to == 'resumed' then call('HDEL', key, 'archived')
elseif to == 'running' and phase == 'seeding' and is_current then call('HSET', key, 'phase', 'running')
elseif to == 'ended' and phase == 'running' and is_current then call('HSET', key, 'phase', 'ended', 'end', ending)
elseif to == 'archived' and phase == 'ended' and is_current then call('HSET', key, 'archived', 1) end
return state()
