-- What waits of some domains in a worker's queue and is not on loan, as domains, tickets and messages: a step of many, so
-- that nobody waits long. Answers where to go on, which is nowhere at the end. Nothing is changed.
local STEP = 1000
local worker, after, wanted = argument(), argument(), {}
for _ = 1, number() do wanted[argument()] = true end
local stream = base .. 'queue:' .. worker
if call('EXISTS', stream) == 0 then return { '', {} } end
if after == '' then
  local group = call('XINFO', 'GROUPS', stream)[1] or {}
  for i = 1, #group, 2 do
    if group[i] == 'last-delivered-id' then after = group[i + 1] end
  end
end
local messages = call('XRANGE', stream, after == '' and '-' or '(' .. after, '+', 'COUNT', STEP)
local tickets, found = {}, {}
for i, message in ipairs(messages) do tickets[i] = message[2][2] end
for i, task in ipairs(for_many('HMGET', base .. 'tasks', tickets)) do
  local domain = task and cmsgpack.unpack(task)[4]
  if wanted[domain] then found[#found + 1] = { domain, tickets[i], messages[i][1] } end
end
return { #messages == STEP and messages[STEP][1] or '', found }
