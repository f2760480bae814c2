-- Begins a crawl with these settings, or joins the one that was begun under its name. Answers what it was begun with.
if call('EXISTS', base .. 'settings') == 0 then
  for _ = 1, number() do
    local name = argument()
    call('HSET', base .. 'settings', name, argument())
  end
end
return call('HGETALL', base .. 'settings')
