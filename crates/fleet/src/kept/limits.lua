-- Compares the rules of servers: whether rules of the same name have the same limits. The clock of this server is the only
-- one.
--
-- KEYS: a hash, which has up to two servers with different limits for each rule. ARGV: the server, the milliseconds after
-- which it is forgotten, and then for each rule its name and a digest. The answer is, for each rule that another server has
-- with another digest, its name and that server.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local server, life = ARGV[1], tonumber(ARGV[2])
local MOST = 8000

local function read(place, rule)
  local text = redis.call('HGET', KEYS[1], place .. rule) or ''
  local digest, of, time = string.match(text, '^(%x+) (%S+) (%d+)$')
  if digest and math.abs(now - tonumber(time)) < life then
    return digest, of
  end
end

-- Rules that no server has any more.
if redis.call('HLEN', KEYS[1]) > MOST then
  redis.call('UNLINK', KEYS[1])
end
local answer = {}
for index = 3, #ARGV, 2 do
  local rule, digest = ARGV[index], ARGV[index + 1]
  local first, of_first = read('1:', rule)
  local second, of_second = read('2:', rule)
  local other, place = nil, '1:'
  if not first or first == digest or of_first == server then
    if second and second ~= digest and of_second ~= server then
      other = of_second
    end
  else
    other, place = of_first, '2:'
  end
  redis.call('HSET', KEYS[1], place .. rule, digest .. ' ' .. server .. ' ' .. string.format('%.0f', now))
  if other then
    answer[#answer + 1] = rule
    answer[#answer + 1] = other
  end
end
redis.call('PEXPIRE', KEYS[1], life)
return answer
