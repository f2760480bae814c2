-- Looks at some of the keys of this server, and does one thing with those of a crawl: a step of many, so that nobody waits
-- long. Answers where to go on, which is 0 at the end, and how many keys it was done with.
local MOST = 2000
local cursor, pattern, what, time = argument(), argument(), argument(), argument()
-- They have a lifetime of their own.
local OF_ITSELF = { page = true, body = true, bands = true, answer = true, robots = true }
-- The result of a crawl; and who works on it is nobody's business here.
local RESULT = { counts = true, outcomes = true, refused = true, used = true, settings = true }
local scanned = call('SCAN', cursor, 'MATCH', pattern, 'COUNT', MOST)
local done = 0
for _, key in ipairs(scanned[2]) do
  local part, name = key:match('^crawler:{[^:}]*:([^}]*)}:([^:]*)')
  if what == 'purge' then
    -- What tells those at work that there was a purge stays until they have seen it.
    if part ~= 'crew' or name ~= 'purged' then done = done + call('UNLINK', key) end
  elseif part and part ~= 'crew' and not OF_ITSELF[name] and not RESULT[name] then
    if what == 'expire' then
      done = done + call('PEXPIRE', key, time, 'NX')
    elseif what == 'persist' then
      done = done + call('PERSIST', key)
    elseif what == 'waiting' and name == 'waiting' then
      done = done + call('UNLINK', key)
    end
  end
end
return { scanned[1], done }
