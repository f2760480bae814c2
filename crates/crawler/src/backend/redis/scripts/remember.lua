-- Stores pages, and files each under the hash of its body and the bands of its sketch; but not one under which others are
-- filed that its worker has not compared it with. These are answered instead, and the worker asks again when it has. So
-- whatever is filed here is kept, and pages are found to be alike as if they had come one after the other.
-- Answers when what is stored now expires, and of each page the others it has to be compared with: none, if it is stored.
local GENERATIONS = 12  -- parts of a lifetime in which stored pages are counted
local ANY = '*'         -- compared with whatever may be there
local lifetime, most, many = number(), number(), number()
local expires, for_lifetime = ('%016d'):format(now + lifetime), ('%d'):format(lifetime)
local lifetimes = math.floor(now / lifetime)
local page_key, newer = base .. 'page:', base .. 'bands:' .. ('%d'):format(lifetimes)
local older = base .. 'bands:' .. ('%d'):format(lifetimes - 1)

-- What the pages are filed under comes after all of them, so that it is passed on as it is; it is never too much for that.
local fields = last_argument + 5 * many
local there, before, there_now, filed = {}, {}, {}, {}
if #arguments > fields then
  there = call('HMGET', newer, unpack(arguments, fields + 1))
  if call('EXISTS', older) == 1 then before = call('HMGET', older, unpack(arguments, fields + 1)) end
end
local pages_stored, bytes_stored, told, last = 0, 0, {}, 0

for i = 1, many do
  local id, record, size, known = argument(), argument(), number(), argument()
  local first, width, unknown, others, checked = last + 1, #id, {}, {}, ''
  last = last + number()
  if known ~= ANY then
    for at = first, last do
      local ids = there_now[arguments[fields + at]] or there[at] or ''
      if before[at] then ids = (ids .. before[at]):sub(1, most * width) end
      if ids ~= checked then
        for place = 1, #ids, width do
          local one = ids:sub(place, place + width - 1)
          if one ~= id and not known:find(one, 1, true) then
            unknown[#unknown + 1], known = page_key .. one, known .. one
          end
        end
        checked = ids
      end
    end
  end
  -- Pages that expired may still be there: what they are filed under lives longer, and the crawl's clock may be ahead.
  if #unknown > 0 then
    for _, other in ipairs(call('MGET', unpack(unknown))) do
      if other and other:sub(1, 16) + 0 > now then others[#others + 1] = other end
    end
  end
  told[i] = others

  if #others == 0 then
    -- It takes the place of what its URL gave before.
    local replaced = call('SET', page_key .. id, expires .. record, 'PX', for_lifetime, 'GET')
    if replaced then
      local generation = math.floor(replaced:sub(1, 16) / math.ceil(lifetime / GENERATIONS))
      call('HINCRBY', base .. 'stored', generation .. ' pages', -1)
      call('HINCRBY', base .. 'stored', generation .. ' bytes', ('%d'):format(0 - replaced:sub(17, 26)))
    end
    pages_stored, bytes_stored = pages_stored + 1, bytes_stored + size
    -- For a lifetime and the rest of another, as only whole lifetimes are forgotten; the newest first.
    for at = first, last do
      local field = arguments[fields + at]
      local ids = there_now[field] or there[at]
      if not ids then
        ids = id
      elseif not ids:find(id, 1, true) then
        ids = (id .. ids):sub(1, most * width)
      end
      if many > 1 then there_now[field] = ids end
      filed[#filed + 1] = field
      filed[#filed + 1] = ids
    end
  end
end

if pages_stored > 0 then
  local generation = math.floor((now + lifetime) / math.ceil(lifetime / GENERATIONS))
  call('HINCRBY', base .. 'stored', ('%d pages'):format(generation), ('%d'):format(pages_stored))
  call('HINCRBY', base .. 'stored', ('%d bytes'):format(generation), ('%d'):format(bytes_stored))
end
if #filed > 0 then
  call('HSET', newer, unpack(filed))
  if call('PTTL', newer) < 0 then
    call('PEXPIRE', newer, 2 * lifetime)
    -- It may be large: it is not to be freed while everybody waits.
    call('UNLINK', base .. 'bands:' .. ('%d'):format(lifetimes - 2))
  end
end
return { expires, told }
