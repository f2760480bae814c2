-- Remembers a page, as far as that belongs here: files it under the hash of its body, stores it, and files it under the
-- bands of its sketch. Answers the URL of another page whose body is the same, if there is one, the ids of pages that may
-- be similar, where they are here too, these pages, and when the page
-- expires.
local GENERATIONS = 12  -- parts of a lifetime in which stored pages are counted
local lifetime, url, id = number(), argument(), argument()
local expires = ('%016.0f'):format(now + lifetime)

-- Under the hash of its body. Pages that expired may still be there: the crawl's clock may be ahead.
local exact = argument()
if exact ~= '' then
  local there = call('GET', base .. 'exact:' .. exact)
  if there and there:sub(17) ~= url and tonumber(there:sub(1, 16)) > now then
    return { there:sub(17), {}, {}, expires }
  end
  call('SET', base .. 'exact:' .. exact, expires .. url, 'PX', lifetime)
end

-- What recognises it. It takes the place of what its URL gave before; its body, where bodies are stored, comes after it.
local record, size = argument(), argument()
if record ~= '' then
  local function count_stored(when, pages, bytes)
    local generation = math.floor(when / math.ceil(lifetime / GENERATIONS))
    call('HINCRBY', base .. 'stored', generation .. ' pages', pages)
    call('HINCRBY', base .. 'stored', generation .. ' bytes', bytes)
  end
  local before = call('SET', base .. 'page:' .. id, expires .. record, 'PX', lifetime, 'GET')
  if before then
    count_stored(tonumber(before:sub(1, 16)), -1, 0 - math.max(0, call('STRLEN', base .. 'body:' .. id) - 1))
  end
  count_stored(now + lifetime, '1', size)
end

-- Under the bands of its sketch: for a lifetime and the rest of another, because only whole lifetimes are forgotten.
local most, gives_pages, bands, candidates = number(), argument() == '1', {}, {}
for i = 1, number() do bands[i] = argument() end
if #bands > 0 then
  local generation, seen, filed, one = math.floor(now / lifetime), { [id] = true }, {}, ('.'):rep(#id)
  local key = base .. 'bands:' .. ('%d'):format(generation)
  local there = call('HMGET', key, unpack(bands))
  local older = base .. 'bands:' .. ('%d'):format(generation - 1)
  local before = call('EXISTS', older) == 1 and call('HMGET', older, unpack(bands)) or {}
  for i, band in ipairs(bands) do
    local newest = there[i] or ''
    filed[2 * i - 1], filed[2 * i] = band, id
    if there[i] or before[i] then
      for other in (newest .. (before[i] or '')):sub(1, most * #id):gmatch(one) do
        if not seen[other] then candidates[#candidates + 1] = other end
        seen[other] = true
      end
      filed[2 * i] = newest:find(id, 1, true) and newest or (id .. newest):sub(1, most * #id)
    end
  end
  call('HSET', key, unpack(filed))
  if call('PTTL', key) < 0 then
    call('PEXPIRE', key, 2 * lifetime)
    -- It may be large: it is not to be freed while everybody waits.
    call('UNLINK', base .. 'bands:' .. ('%d'):format(generation - 2))
  end
end

local pages = {}
if gives_pages and #candidates > 0 then
  for i, other in ipairs(candidates) do pages[i] = base .. 'page:' .. other end
  pages = call('MGET', unpack(pages))
end
return { '', candidates, pages, expires }
