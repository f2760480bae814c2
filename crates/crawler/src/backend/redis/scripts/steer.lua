-- Moves the crawl from phase to phase: opening (seeds are being admitted), running, over, and then closed. An end is the end of the
-- opening that it was decided for: whoever has opened the crawl again since is not overruled. Answers how it is.
local before = answered()
if before then return before end
local to, ended_how, opening, note = argument(), argument(), number(), argument()
local phase, _, openings = unpack(crawl())
local key = base .. 'crawl'
if to == 'opening' then
  call('HSET', key, 'openings', openings + 1, 'phase', 'opening', 'end', '')
  -- Those who are at work read the settings again when they have another version. Without a note they stay as they are.
  local there = call('HGET', key, 'note')
  if not there or note ~= '' and there ~= note then
    call('HSET', key, 'note', note)
    call('HINCRBY', key, 'version', 1)
  end
  call('DEL', base .. 'reports', base .. 'result', base .. 'purged')
elseif to == 'running' and phase == 'opening' and opening == openings then
  call('HSET', key, 'phase', 'running')
elseif to == 'closed' and phase == 'over' and opening == openings then
  call('HSET', key, 'closed', 1)
elseif to == 'reopened' then
  call('HDEL', key, 'closed')
elseif to == 'over' and phase == 'running' and opening == openings then
  call('HSET', key, 'phase', 'over', 'end', ended_how)
end
return answer(crawl())
