-- Tells who owns a host's domain, which is the worker itself if nobody does, and how long the host is to be left alone.
-- Nobody is told to one whose place another has taken.
local worker, holder, name, host = argument(), argument(), argument(), argument()
if holder ~= '' and (call('HGET', base .. 'holders', worker) or ''):match(' (.*)$') ~= holder then return {} end
local state = domain_of(name)
if not state or state.held == 0 and state.waiting == 0 and state.lapses <= now then
  state = { owner = worker, held = 0, waiting = 0, hungry = '0' }
end
if state.owner == worker then
  write_domain(name, state)
  write_domains()
end
local rest, site_rest = unpack(call('ZMSCORE', base .. 'rests', host, site_of(name)))
return { state.owner + 0, math.max(0, (rest or 0) - now, (site_rest or 0) - now) }
