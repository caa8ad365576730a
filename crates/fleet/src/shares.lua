-- Takes the reports of one host, and answers with its shares. The arithmetic is that of `fleet::share` in
-- ratelimit-common, and a test compares both. The clock of this server is the only one.
--
-- KEYS: one record for each source. ARGV: the terms (period, floor, least), and the reports in the order of the keys
-- (rate, burst, offered, admitted, own, weight, record), each number in eight bytes.
-- The answer is the time, and then the number and the share of each record. A share of 0 is none.
local period, floor, least = struct.unpack('<ddd', ARGV[1])
local reports = ARGV[2]
local memory = 3 * period
local MEAN = 0.8504060682786326
local LONGEST_DEBT, LEAST_DEBT, RELEASE, LOW, PAID = 5, 2, 0.9, 0.25, 1
-- Half-lives of a demand after which a record means nothing.
local KEPT = 4
-- No record is kept for longer than a week, in milliseconds.
local LONGEST = 604800000
local REPORT, MOST = 56, 1e18
-- Seconds by which this server's clock may have been set back since a record was stored.
local LATE = 60

local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local answers = { struct.pack('<d', now) }

for index, key in ipairs(KEYS) do
  local rate, burst, offered, admitted, own, weight, known =
    struct.unpack('<ddddddd', reports, (index - 1) * REPORT + 1)
  for _, number in ipairs({ rate, burst, offered, admitted, own, weight }) do
    -- Neither infinite nor no number, since a record would keep it.
    if not (number >= 0 and number < MOST) then
      return redis.error_reply('ERR a report makes no sense')
    end
  end
  local highest = burst + rate * period

  -- Whatever else somebody has stored there is no record.
  local record = redis.pcall('GET', key)
  local number, level, packets, weighted, time, contended
  if type(record) == 'string' and #record == 41 then
    number, level, packets, weighted, time, contended = struct.unpack('<dddddB', record)
  end
  if not (number and math.abs(level) < MOST and packets >= 0 and packets < MOST and weighted >= 0 and weighted < MOST
    and time >= 0 and time <= now + LATE) then
    -- Two records of one source never begin in the same microsecond, as this script runs alone.
    number = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
    level, packets, weighted, time, contended = highest, 0, 0, now, 0
  end

  local passed = math.max(now - time, 0)
  level = math.max(math.min(level + rate * passed, highest) - admitted, -math.max(LONGEST_DEBT * rate, LEAST_DEBT))
  if known ~= number then
    offered = own
  end
  local left = math.exp(-passed / memory)
  packets = packets * left + offered
  weighted = weighted * left + weight * offered
  time = math.max(time, now)
  local demand = packets / memory
  if level < LOW * highest or demand > rate or (contended == 1 and demand >= RELEASE * rate) then
    contended = 1
  else
    contended = 0
  end

  local share = 0
  if contended == 1 then
    local mean = weight * own * MEAN
    local all = weighted - weight * own + mean
    local part = 1
    if all > 0 then
      part = math.max(0, math.min(mean / all, 1))
    end
    local middle = level + admitted / 2
    local gain
    if middle > 0 then
      gain = 1 + 2 * middle / highest
    else
      gain = math.max(1 + middle / (PAID * rate), floor)
    end
    share = math.max(least, math.min(part * gain, 1))
  end

  local kept = math.max((highest - level) / rate, 0) + KEPT * 0.6931471805599453 * memory
  local milliseconds = math.min(math.max(math.ceil(kept * 1000), 1000), LONGEST)
  redis.call('SET', key, struct.pack('<dddddB', number, level, packets, weighted, time, contended), 'PX',
    string.format('%d', milliseconds))
  answers[#answers + 1] = struct.pack('<dd', number, share)
end
return table.concat(answers)
