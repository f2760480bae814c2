-- What every script begins with: its arguments, and answers that are given twice.
-- KEYS[1] is what the names of a partition's keys begin with; it carries the partition's hash tag, so whatever is
-- named after it is on the same node of a cluster.
local base = KEYS[1]
local call = redis.call
local nonce = ARGV[2]
local arguments = ARGV
local last_argument = 3
local ANSWER_LIFETIME = '3600'  -- seconds: longer than anybody waits for Redis before the move is asked for again

local function argument()
  last_argument = last_argument + 1
  return arguments[last_argument]
end

-- Adding 0 makes a number of a text in half the time of tonumber.
local function number()
  return argument() + 0
end

-- Answers that have arrived need not be remembered.
if ARGV[3] ~= '' then
  local arrived = {}
  for name in ARGV[3]:gmatch('%S+') do arrived[#arrived + 1] = base .. 'answer:' .. name end
  call('DEL', unpack(arrived))
end

-- Lua passes on only so many values at a time.
local AT_ONCE = 1000

-- Carries out a command for many values at once.
local function for_many(command, key, values)
  if #values == 0 then return {} end
  if #values <= AT_ONCE then return call(command, key, unpack(values)) end
  local answers = {}
  for first = 1, #values, AT_ONCE do
    local answer = call(command, key, unpack(values, first, math.min(first + AT_ONCE - 1, #values)))
    if type(answer) == 'table' then
      for i = 1, #answer do answers[#answers + 1] = answer[i] end
    end
  end
  return answers
end

-- A text too long for a hash that Redis keeps as a list, and searches from end to end: what is looked up all the time is
-- to be in a table.
local function long(format, ...)
  return ('%-65s'):format(format:format(...))
end

-- A move whose answer was lost is asked for again under the same nonce: it is answered as before, and not made twice.
local function answered()
  local before = call('GET', base .. 'answer:' .. nonce)
  return before and cmsgpack.unpack(before)
end

local function answer(reply)
  call('SET', base .. 'answer:' .. nonce, cmsgpack.pack(reply), 'EX', ANSWER_LIFETIME)
  return reply
end
