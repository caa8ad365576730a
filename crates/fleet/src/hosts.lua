-- Notes that a host is there, and answers with the hosts of the fleet. The clock of this server is the only one.
--
-- KEYS: the times at which hosts were heard, and what they say about themselves. ARGV: the id of the host, what it says,
-- the seconds after which a silent host is forgotten, and the most hosts to tell about. A host that says nothing has gone.
-- The answer is the number of hosts, and then of each one its id, the seconds since it was heard, and what it says.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local silent, most = tonumber(ARGV[3]), tonumber(ARGV[4])

local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.17g', now - silent), 'LIMIT', 0, 1000)
if #gone > 0 then
  redis.call('ZREM', KEYS[1], unpack(gone))
  redis.call('HDEL', KEYS[2], unpack(gone))
end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.17g', now), ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  for _, key in ipairs(KEYS) do
    redis.call('EXPIRE', key, math.ceil(10 * silent))
  end
end

local answer = { tostring(redis.call('ZCARD', KEYS[1])) }
local hosts = redis.call('ZREVRANGE', KEYS[1], 0, most - 1, 'WITHSCORES')
for index = 1, #hosts, 2 do
  answer[#answer + 1] = hosts[index]
  answer[#answer + 1] = string.format('%.17g', math.max(now - tonumber(hosts[index + 1]), 0))
  answer[#answer + 1] = redis.call('HGET', KEYS[2], hosts[index]) or ''
end
return answer
