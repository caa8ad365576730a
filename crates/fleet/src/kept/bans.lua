-- Adds what a host tells of sources that it denies, and answers with what all hosts have told since the last call. The
-- clock of this server is the only one.
--
-- KEYS: a stream, and the number of that stream. ARGV: the number that the host knows, the last entry that it knows, the
-- most entries of an answer, the most entries to keep, the milliseconds after which a silent stream is forgotten, the name of
-- the host, and then for each source its prefix and the milliseconds for which it is denied, 0 if it is not any more.
-- The answer is the number of the stream, the last entry of the answer, and then for each entry the prefix, the name of its
-- host, and the milliseconds that are left. A host that knows another stream gets all entries.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local last, most, kept, silent = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local stream = redis.call('GET', KEYS[2])
if not stream then
  stream = clock[1] .. '.' .. clock[2]
  redis.call('SET', KEYS[2], stream)
end
local function order(id)
  local time, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(time) or 0, tonumber(number) or 0
end

-- A server that has taken over can lack the last entries. Then all hosts tell theirs again.
if stream == ARGV[1] and last ~= '0-0' then
  local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local time, number = order(last)
  local newest_time, newest_number = order(newest and newest[1] or '0-0')
  if newest_time < time or (newest_time == time and newest_number < number) then
    stream = clock[1] .. '.' .. clock[2]
    redis.call('SET', KEYS[2], stream)
  end
end
redis.call('PEXPIRE', KEYS[2], silent)
if stream ~= ARGV[1] then
  last = '0-0'
end

for index = 7, #ARGV, 2 do
  local left = tonumber(ARGV[index + 1])
  local ends = left > 0 and string.format('%.0f', now + left) or '0'
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', kept, '*', 's', ARGV[index], 'h', ARGV[6], 'e', ends)
end
if #ARGV > 6 then
  redis.call('PEXPIRE', KEYS[1], silent)
end

local answer = { stream, last }
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', most)) do
  answer[2] = entry[1]
  local fields = entry[2]
  answer[#answer + 1] = fields[2] or ''
  answer[#answer + 1] = fields[4] or ''
  answer[#answer + 1] = string.format('%.0f', math.max((tonumber(fields[6]) or 0) - now, 0))
end
return answer
