-- Remembers pages, as far as they belong here: files each under the hash of its body, stores it, and files it under the
-- bands of its sketch. Answers when what is stored now expires, and of each page the URL of another whose body is the
-- same, if there is one, the ids of pages that may be similar, and where they are here too, these pages.
local GENERATIONS = 12  -- parts of a lifetime in which stored pages are counted
local lifetime, most, gives_pages, many = number(), number(), argument() == '1', number()
local expires, for_lifetime = ('%016.0f'):format(now + lifetime), ('%d'):format(lifetime)
local pages, exacts, bands = {}, {}, {}
for i = 1, many do
  local url, id, exact, record, size, first = argument(), argument(), argument(), argument(), number(), #bands
  if exact ~= '' then
    exact = base .. 'exact:' .. exact
    exacts[#exacts + 1] = exact
  end
  for band = first + 1, first + number() do bands[band] = argument() end
  pages[i] = { url = url, id = id, exact = exact, record = record, size = size, first = first + 1, last = #bands }
end

-- What is filed there, read once, and what the pages before have changed of it. All pages have a hash, or none.
local same, same_now = #exacts > 0 and call('MGET', unpack(exacts)) or {}, {}
local lifetimes = math.floor(now / lifetime)
local newer, older = base .. 'bands:' .. ('%d'):format(lifetimes), base .. 'bands:' .. ('%d'):format(lifetimes - 1)
local there, there_now, filed = for_many('HMGET', newer, bands), {}, {}
local there_before = #bands > 0 and call('EXISTS', older) == 1 and for_many('HMGET', older, bands) or {}
local pages_stored, bytes_stored, sizes, told = 0, 0, {}, {}

for i, page in ipairs(pages) do
  local url, id, exact, candidates, similar = page.url, page.id, page.exact, {}, {}
  -- Under the hash of its body. Pages that expired may still be there: the crawl's clock may be ahead.
  local other = exact ~= '' and (same_now[exact] or same[i])
  if other and other:sub(17) ~= url and other:sub(1, 16) + 0 > now then
    told[i] = { other:sub(17), candidates, similar }
  else
    if exact ~= '' then
      same_now[exact] = expires .. url
      call('SET', exact, expires .. url, 'PX', for_lifetime)
    end

    -- What recognises it. It takes the place of what its URL gave before; its body, if it is stored, comes after it.
    if page.record ~= '' then
      local before = call('SET', base .. 'page:' .. id, expires .. page.record, 'PX', for_lifetime, 'GET')
      if before then
        local generation = math.floor(before:sub(1, 16) / math.ceil(lifetime / GENERATIONS))
        local size = sizes[id] or math.max(0, call('STRLEN', base .. 'body:' .. id) - 1)
        call('HINCRBY', base .. 'stored', generation .. ' pages', -1)
        call('HINCRBY', base .. 'stored', generation .. ' bytes', 0 - size)
      end
      pages_stored, bytes_stored, sizes[id] = pages_stored + 1, bytes_stored + page.size, page.size
    end

    -- Under the bands of its sketch: for a lifetime and the rest of another, as only whole lifetimes are forgotten.
    local seen = { [id] = true }
    for at = page.first, page.last do
      local band, ids = bands[at], id
      local newest, before = many > 1 and there_now[band] or there[at], there_before[at]
      if newest or before then
        newest = newest or ''
        for one in (newest .. (before or '')):sub(1, most * #id):gmatch(('.'):rep(#id)) do
          if not seen[one] then candidates[#candidates + 1] = one end
          seen[one] = true
        end
        ids = newest:find(id, 1, true) and newest or (id .. newest):sub(1, most * #id)
      end
      if many > 1 then there_now[band] = ids end
      filed[#filed + 1], filed[#filed + 2] = band, ids
    end

    if gives_pages and #candidates > 0 then
      for place, candidate in ipairs(candidates) do similar[place] = base .. 'page:' .. candidate end
      similar = call('MGET', unpack(similar))
    end
    told[i] = { '', candidates, similar }
  end
end

if pages_stored > 0 then
  local generation = math.floor((now + lifetime) / math.ceil(lifetime / GENERATIONS))
  call('HINCRBY', base .. 'stored', generation .. ' pages', pages_stored)
  call('HINCRBY', base .. 'stored', generation .. ' bytes', ('%d'):format(bytes_stored))
end
if #filed > 0 then
  for_many('HSET', newer, filed)
  if call('PTTL', newer) < 0 then
    call('PEXPIRE', newer, 2 * lifetime)
    -- It may be large: it is not to be freed while everybody waits.
    call('UNLINK', base .. 'bands:' .. ('%d'):format(lifetimes - 2))
  end
end
return { expires, told }
