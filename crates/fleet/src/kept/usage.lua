-- Keeps what clients of requests have used: a hash for each hour, with a text of four numbers for each client. The clock of
-- this server is the only one.
--
-- KEYS: a sorted set with the number of rows of each hour, and the number of the last batch of a server. The key of an hour is
-- that of the set, a colon and the hour since 1970. With `rows` in place of the hour, it has the number of all rows, and the
-- hour in which the set was read last. ARGV: what to do, and
--   add: the number of the batch, the hours to keep, the most rows, the most rows of an hour, and then for each row its hour,
--     its client, and four numbers: admitted, cost, refused, last. The answer is the number of requests that found no room. A
--     batch that was there before changes nothing.
--   hours: the answer is all hours.
--   rows: an hour, a cursor, a pattern of clients, and about how many rows. The answer is the next cursor, and for each row
--     its client and its numbers.
local MOST = 9007199254740992
-- Milliseconds for which the number of a batch is kept.
local SEEN = 86400000
-- Hours by which the clock of a server may be early.
local EARLY = 24

if ARGV[1] == 'hours' then
  return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf')
elseif ARGV[1] == 'rows' then
  local found = redis.pcall('HSCAN', KEYS[1] .. ':' .. ARGV[2], ARGV[3], 'MATCH', ARGV[4], 'COUNT', ARGV[5])
  if found.err then
    -- Somebody has stored something else there.
    return string.find(found.err, 'WRONGTYPE', 1, true) and { '0' } or found
  end
  table.insert(found[2], 1, found[1])
  return found[2]
end

local seen = redis.call('GET', KEYS[2]) or '0'
if tonumber(ARGV[2]) <= (tonumber(seen) or 0) then
  return { '0' }
end
-- Whatever else somebody has stored in place of an hour stays. Another error is one of the engine, such as a missing right.
local function is_error(answer)
  return type(answer) == 'table' and answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true)
end
local now = tonumber(redis.call('TIME')[1])
local kept, most, most_of_hour = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local this, counts, lost, more = math.floor(now / 3600), {}, 0, 0
local first = this - kept

-- After an error, nothing has changed.
redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 0, 1)
for index = 6, #ARGV, 6 do
  local hour, number = ARGV[index], tonumber(ARGV[index])
  if not counts[hour] and number >= first and number <= this + EARLY then
    counts[hour] = redis.pcall('HLEN', KEYS[1] .. ':' .. hour)
    local old = redis.pcall('HGET', KEYS[1] .. ':' .. hour, ARGV[index + 1])
    if is_error(counts[hour]) or is_error(old) then
      return is_error(old) and old or counts[hour]
    end
  end
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', SEEN)
local is_begun = false

for index = 6, #ARGV, 6 do
  local hour, client = ARGV[index], ARGV[index + 1]
  local number, key = tonumber(hour), KEYS[1] .. ':' .. hour
  local new = {}
  for place = 1, 4 do
    new[place] = tonumber(ARGV[index + 1 + place])
  end
  local requests, is_kept = new[1] + new[3], false
  if number >= first and number <= this + EARLY then
    local old = redis.pcall('HGET', key, client)
    if type(counts[hour]) == 'number' and (old or counts[hour] < most_of_hour) then
      local admitted, cost, refused, last = string.match(type(old) == 'string' and old or '', '^(%d+) (%d+) (%d+) (%d+)$')
      if admitted then
        new[1], new[2], new[3] = new[1] + tonumber(admitted), new[2] + tonumber(cost), new[3] + tonumber(refused)
        new[4] = math.max(new[4], tonumber(last))
      end
      for place = 1, 4 do
        new[place] = string.format('%.0f', math.min(new[place], MOST))
      end
      local added = redis.pcall('HSET', key, client, table.concat(new, ' '))
      if type(added) == 'number' then
        counts[hour], more = counts[hour] + added, more + added
        is_kept, is_begun = true, true
      elseif is_error(added) and not is_begun then
        redis.call('SET', KEYS[2], seen, 'PX', SEEN)
        return added
      end
    end
  end
  if not is_kept then
    lost = lost + requests
  end
end

for hour, count in pairs(counts) do
  if type(count) == 'number' and count > 0 then
    redis.call('ZADD', KEYS[1], count, hour)
    redis.call('PEXPIRE', KEYS[1] .. ':' .. hour, string.format('%.0f', ((tonumber(hour) + 1 + kept) * 3600 - now) * 1000))
  end
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', (kept + EARLY + 1) * 3600000))

-- The set can have very many hours. It is read if an hour has begun, which can end another one, or if there are too many rows.
local function keep(total)
  redis.call('SET', KEYS[1] .. ':rows', string.format('%.0f %.0f', total, this), 'PX', 2 * 3600000)
end
local known = redis.pcall('GET', KEYS[1] .. ':rows')
local before, hour_before = string.match(type(known) == 'string' and known or '', '^(%d+) (%d+)$')
if before and tonumber(hour_before) == this and tonumber(before) + more <= most then
  keep(tonumber(before) + more)
  return { string.format('%.0f', lost) }
end
local hours, all = {}, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'WITHSCORES')
local total = 0
for index = 1, #all, 2 do
  hours[#hours + 1] = { tonumber(all[index]) or 0, all[index], tonumber(all[index + 1]) }
  total = total + tonumber(all[index + 1])
end
table.sort(hours, function(one, other) return one[1] < other[1] end)
for _, hour in ipairs(hours) do
  if hour[1] >= first and total <= most then
    break
  end
  redis.call('UNLINK', KEYS[1] .. ':' .. hour[2])
  redis.call('ZREM', KEYS[1], hour[2])
  total = total - hour[3]
end
keep(math.max(total, 0))
return { string.format('%.0f', lost) }
