-- Files lent URLs in their priority queues. One that is not on loan was filed before.
local tickets, into = {}, {}
for i = 1, number() do tickets[i], into[i] = argument(), argument() end
local lent = for_many('HMGET', base .. 'prioritizing', tickets)
local filed, messages, queues = {}, {}, {}
for i, ticket in ipairs(tickets) do
  if lent[i] then
    filed[#filed + 1], messages[#messages + 1] = ticket, lent[i]
    local queue = queues[into[i]] or {}
    queues[into[i]] = queue
    queue[#queue + 1] = ticket
  end
end
-- Throws messages away. To look for each alone is dear: as a rule all that were read are filed, and go together.
local function throw_away(messages)
  if #messages == 0 then return end
  if call('EXISTS', base .. 'prioritizing') == 1 then return for_many('XDEL', base .. 'urls', messages) end
  local group = call('XINFO', 'GROUPS', base .. 'urls')[1]
  for i = 1, #group, 2 do
    if group[i] == 'last-delivered-id' then
      local time, number = group[i + 1]:match('^(%d+)-(%d+)$')
      call('XTRIM', base .. 'urls', 'MINID', ('%s-%d'):format(time, number + 1))
    end
  end
end

for queue, filed_there in pairs(queues) do for_many('RPUSH', base .. 'filed:' .. queue, filed_there) end
for_many('HDEL', base .. 'prioritizing', filed)
for first = 1, #filed, AT_ONCE do
  local last = math.min(first + AT_ONCE - 1, #filed)
  call('XACK', base .. 'urls', 'prioritizer', unpack(messages, first, last))
end
throw_away(messages)
if #filed > 0 then call('HINCRBY', base .. 'counts', 'filed', #filed) end
fill_url_queue()
