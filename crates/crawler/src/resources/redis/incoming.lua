-- Lends the prioritizer URLs of the URL queue, in the order of admission, and no more than fit into one priority
-- queue. What was lent and not filed is lent again when it is asked for again, or by somebody new.
local max, queues, anew = number(), number(), argument() == '1'
local incoming = {}

local function lend(tickets)
  for i, task in ipairs(for_many('HMGET', base .. 'tasks', tickets)) do
    local id, _, _, domain = unpack(cmsgpack.unpack(task))
    local _, depth = outstanding(id)
    local pages = tonumber(call('HGET', base .. 'popularity', domain) or 0)
    incoming[#incoming + 1] = { tickets[i], domain, depth, pages }
  end
end

local is_new = call('SET', base .. 'answer:' .. nonce, 1, 'NX', 'EX', ANSWER_LIFETIME)
if anew or not is_new then
  lend(call('HKEYS', base .. 'prioritizing'))
  if not is_new then return incoming end
end
fill_url_queue()
local fullest = 0
for queue = 0, queues - 1 do
  fullest = math.max(fullest, call('LLEN', base .. 'filed:' .. queue))
end
local count = math.min(max, urls_queued(), room - fullest - call('HLEN', base .. 'prioritizing'))
if count > 0 then
  local read = call('XREADGROUP', 'GROUP', 'prioritizer', 'frontier', 'COUNT', count, 'STREAMS', base .. 'urls', '>')
  local tickets, messages = {}, {}
  for i, message in ipairs(read and read[1][2] or {}) do
    tickets[i] = message[2][2]
    messages[2 * i - 1], messages[2 * i] = message[2][2], message[1]
  end
  for_many('HSET', base .. 'prioritizing', messages)
  lend(tickets)
  fill_url_queue()
end
return incoming
