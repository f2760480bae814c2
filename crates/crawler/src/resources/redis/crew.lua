-- What the scripts of the crew share: who works on the crawl, and how far the crawl is. Both are in one place, so that
-- whoever tells that he lives learns in the same moment what he is to do.

-- A member: its token, when it was last heard of, where it runs, and whether it was found dead.
local function member_of(name)
  local entry = call('HGET', base .. 'members', name)
  return entry and cmsgpack.unpack(entry)
end

local function write_member(name, member)
  call('HSET', base .. 'members', name, cmsgpack.pack(member))
end

-- What the crawl is about: its phase, how it ended, how often it was opened, the version of its settings.
local function crawl()
  local state = call('HMGET', base .. 'crawl', 'phase', 'end', 'openings', 'version', 'elapsed')
  return { state[1] or '', state[2] or '', tonumber(state[3] or 0), tonumber(state[4] or 0), tonumber(state[5] or 0) }
end
