-- Adds what a host tells of sources that it denies, and answers with what all hosts have told since the last call. The
-- clock of this server is the only one.
--
-- KEYS: a stream. ARGV: the last entry that the host knows, the most entries of an answer, the most entries to keep, the
-- milliseconds after which a silent stream is forgotten, the name of the host, and then for each source its prefix and the
-- milliseconds for which it is denied, 0 if it is not any more.
-- The answer is 1 if the stream does not know that last entry, so that it begins anew; then the last entry of the answer;
-- and then for each entry the prefix, the name of its host, and the milliseconds that are left.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local last, most, kept, silent = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local function order(id)
  local time, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(time) or 0, tonumber(number) or 0
end

local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local anew = 0
if last ~= '0-0' then
  local time, number = order(last)
  local newest_time, newest_number = order(newest and newest[1] or '0-0')
  if newest_time < time or (newest_time == time and newest_number < number) then
    last, anew = '0-0', 1
  end
end

for index = 6, #ARGV, 2 do
  local left = tonumber(ARGV[index + 1])
  local ends = left > 0 and string.format('%.0f', now + left) or '0'
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', kept, '*', 's', ARGV[index], 'h', ARGV[5], 'e', ends)
end
if #ARGV > 5 then
  redis.call('PEXPIRE', KEYS[1], silent)
end

local answer = { tostring(anew), last }
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', most)) do
  answer[2] = entry[1]
  local fields = entry[2]
  answer[#answer + 1] = fields[2] or ''
  answer[#answer + 1] = fields[4] or ''
  answer[#answer + 1] = string.format('%.0f', math.max((tonumber(fields[6]) or 0) - now, 0))
end
return answer
