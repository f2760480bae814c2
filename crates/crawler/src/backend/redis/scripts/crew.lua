-- What the scripts of the crew share: who works on the crawl, and how far the crawl is. Both are in one place, so that
-- whoever tells that he lives learns in the same moment what he is to do.

-- A member: its token, when it was last heard of, where it runs, whether it was found dead, of how many domains it has
-- URLs in hand, and to whom it is to pass on a part of them.
local function member_of(name)
  local entry = call('HGET', base .. 'members', name)
  return entry and cmsgpack.unpack(entry)
end

local function write_member(name, member)
  call('HSET', base .. 'members', name, cmsgpack.pack(member))
end

-- How the crawl is: its phase, which is a word of its own for a while after a purge, how it ended, how often it was opened, the version of its settings, how long it has been
-- under way, and whether what it had was put away.
local function crawl()
  local state = call('HMGET', base .. 'crawl', 'phase', 'end', 'openings', 'version', 'elapsed', 'closed')
  for i = 3, 6 do state[i] = tonumber(state[i] or 0) end
  local phase = state[1] or call('EXISTS', base .. 'purged') == 1 and 'purged' or ''
  return { phase, state[2] or '', state[3], state[4], state[5], state[6] }
end
