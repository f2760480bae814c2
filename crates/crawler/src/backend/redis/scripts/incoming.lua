-- Lends the prioritizer URLs of the URL queue, in the order of admission, and no more than fit into one priority
-- queue. What was lent and not filed is lent again when it is asked for again, or by somebody new.
local max, queues, anew = number(), number(), argument() == '1'
local incoming = {}

local function lend(tickets)
  if #tickets == 0 then return end
  local ids, domains, urls = {}, {}, {}
  for i, task in ipairs(for_many('HMGET', base .. 'tasks', tickets)) do
    local id, _, _, domain, _, url = unpack(cmsgpack.unpack(task))
    ids[i], domains[i], urls[i] = id, domain, url
  end
  local entries, pages = for_many('HMGET', base .. 'outstanding', ids), for_many('HMGET', base .. 'popularity', domains)
  for i, ticket in ipairs(tickets) do
    incoming[#incoming + 1] = { ticket, urls[i], domains[i], entries[i]:match('^%d+ (%d+)') + 0, (pages[i] or 0) + 0 }
  end
end

local is_repeated = call('EXISTS', base .. 'answer:' .. nonce) == 1
if anew or is_repeated then lend(call('HKEYS', base .. 'prioritizing')) end
if is_repeated then return incoming end

-- Remembered also where nothing is lent: a first copy of this move that comes after a second one must not lend what nobody
-- gets.
call('SET', base .. 'answer:' .. nonce, 1, 'EX', ANSWER_LIFETIME)
fill_url_queue()
local lent = call('HLEN', base .. 'prioritizing')
local queued = call('XLEN', base .. 'urls') - lent
if queued <= 0 then return incoming end
-- One queue has at most what all have together.
local fullest = (call('HGET', base .. 'counts', 'filed') or 0) + 0
if room - fullest - lent < math.min(max, queued) then
  fullest = 0
  for queue = 0, queues - 1 do fullest = math.max(fullest, call('LLEN', base .. 'filed:' .. queue)) end
end
local most = math.min(max, queued, room - fullest - lent)
if most <= 0 then return incoming end
local function read_queue()
  return redis.pcall('XREADGROUP', 'GROUP', 'prioritizer', 'frontier', 'COUNT', most, 'STREAMS', base .. 'urls', '>')
end
local read = read_queue()
if read and read.err then
  -- A replica that had nothing took the place of its primary: the queue is begun anew, with what has come since.
  if not read.err:find('NOGROUP', 1, true) then return read end
  call('XGROUP', 'CREATE', base .. 'urls', 'prioritizer', '0')
  read = read_queue()
end
local tickets, messages = {}, {}
for i, message in ipairs(read and read[1][2] or {}) do
  tickets[i] = message[2][2]
  messages[2 * i - 1], messages[2 * i] = message[2][2], message[1]
end
for_many('HSET', base .. 'prioritizing', messages)
lend(tickets)
fill_url_queue()
return incoming
