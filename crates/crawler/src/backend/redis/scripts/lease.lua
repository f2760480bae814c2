-- Lends a worker URLs from its own queue. What was lent under the same nonce, and its answer lost, is lent once.
-- Where workers are processes, only the one that has the worker's place is lent anything: another may have been taken for
-- dead, and not know it yet.
local worker, max, holder = argument(), number(), argument()
if holder ~= '' and (call('HGET', base .. 'holders', worker) or ''):match(' (.*)$') ~= holder then return answer({}) end
local stream = base .. 'queue:' .. worker
local queued = call('HGET', base .. 'lengths', worker)
if not queued then
  -- Who still asks after the end leaves nothing behind.
  if call('HEXISTS', base .. 'counts', 'closed') == 1 then return {} end
  call('HSET', base .. 'lengths', worker, 0)
  redis.pcall('XGROUP', 'CREATE', stream, 'worker', '0', 'MKSTREAM')
end

-- What is told of loans, and the hosts they are of.
local function told(tickets, numbers)
  local leases, ids, hosts, sites = {}, {}, {}, {}
  if #tickets == 0 then return leases, hosts end
  for i, task in ipairs(for_many('HMGET', base .. 'tasks', tickets)) do
    local id, redirects, again, domain, host, url = unpack(cmsgpack.unpack(task))
    ids[i], hosts[i], sites[i] = id, host, site_of(domain)
    leases[i] = { tickets[i], numbers[i], url, 0, redirects, again, 0 }
  end
  local entries, rests = for_many('HMGET', base .. 'outstanding', ids), for_many('ZMSCORE', base .. 'rests', hosts)
  local site_rests = for_many('ZMSCORE', base .. 'rests', sites)
  for i, lease in ipairs(leases) do
    lease[4] = entries[i]:match('^%d+ (%d+)') + 0
    lease[7] = math.max(0, (rests[i] or 0) - now, (site_rests[i] or 0) - now)
  end
  return leases, hosts
end

local lent_before = answered()
if lent_before then
  local tickets, numbers = {}, {}
  for _, ticket in ipairs(lent_before) do
    local loan = loan_of(ticket)
    if loan and loan.nonce == nonce then tickets[#tickets + 1], numbers[#numbers + 1] = ticket, loan.number end
  end
  return (told(tickets, numbers))
end
-- Remembered too: a first copy of this move that comes after a second one must not lend what nobody gets.
if not queued or queued == '0' then return answer({}) end

local read = call('XREADGROUP', 'GROUP', 'worker', 'worker', 'COUNT', max, 'STREAMS', stream, '>')
local messages = read and read[1][2] or {}
-- Numbers that no loan ever had, also if Redis has lost what it did last.
local last = math.max(counted('loans'), now * 100) + #messages
count('loans', last - counted('loans'))
local tickets, numbers, loans = {}, {}, {}
for i, message in ipairs(messages) do
  tickets[i], numbers[i] = message[2][2], ('%d'):format(last - #messages + i)
  loans[2 * i - 1], loans[2 * i] = tickets[i], long('%s %s %s %s', numbers[i], worker, message[1], nonce)
end
for_many('HSET', base .. 'loans', loans)
local leases, hosts = told(tickets, numbers)
for _, host in ipairs(hosts) do host_is_active(host, 1) end
write_active_hosts()
-- What was completed before the first of those that are pending.
local first = call('XPENDING', stream, 'worker')[2]
if first then call('XTRIM', stream, 'MINID', '~', first) end
answer(tickets)
call('HINCRBY', base .. 'lengths', worker, 0 - #leases)
feed(worker)
write_counts()
write_domains()
return leases
