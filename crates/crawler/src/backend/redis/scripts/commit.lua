-- Writes a batch, unless another frontier has taken over or it is written already. A change is a command after its length.
local base, call, last = KEYS[1], redis.call, 3
if call('GET', base .. 'epoch') ~= ARGV[1] then return 'superseded' end
local written = call('GET', base .. 'batch') or '0'
if written == ARGV[2] then return 'written' end
if written ~= ARGV[3] then return 'lost' end
call('SET', base .. 'batch', ARGV[2], 'KEEPTTL')
while last < #ARGV do
  local first = last + 2
  last = last + 1 + ARGV[last + 1]
  call(unpack(ARGV, first, last))
end
return 'written'
