-- Keeps rules of a fleet: one text, its version, and a log of changes.
--
-- KEYS: a hash with version, text and digest of the text, and a stream of versions. ARGV: what to do, and
--   read: the version that the host knows, its digest, and the most bytes of a text. The answer is the version, its digest,
--     and the text if it is another one.
--   write: the version that is replaced, its digest, the new version, its text, who writes it, why, the text for the log,
--     the most entries of the log, and seconds without a further one after which it goes, if it ever does. The answer is 1,
--     or 0 if another version is there. After an error, nothing has changed.
--   log: the most entries, and the most bytes. The answer is for each version, the newest first, its number, milliseconds
--     since 1970, who, why, and its text behind an equals sign. Texts beyond these bytes are left out.
--   text: a version. The answer is its text in the log, or nothing.
--   texts: the most entries, and the most bytes. The answer is the texts in the log, the newest first.
local now = redis.call('HGET', KEYS[1], 'version') or '0'
-- After the loss of a write, another text can have the same number.
local digest = redis.call('HGET', KEYS[1], 'digest') or ''
local is_known = now == ARGV[2] and digest == ARGV[3]

if ARGV[1] == 'read' then
  if is_known then
    return { now, digest }
  end
  local text = redis.call('HGET', KEYS[1], 'text') or ''
  if #text > tonumber(ARGV[4]) then
    return redis.error_reply('ERR the rules are too long')
  end
  return { now, digest, text }
elseif ARGV[1] == 'write' then
  if not is_known then
    return { '0' }
  end
  local version, text = ARGV[4], ARGV[5]
  local before = redis.call('HGET', KEYS[1], 'text') or ''
  redis.call('HSET', KEYS[1], 'version', version, 'text', text, 'digest', redis.sha1hex(text))
  local logged = redis.pcall('XADD', KEYS[2], 'MAXLEN', '=', ARGV[9], '*', 'version', version, 'who', ARGV[6], 'why',
    ARGV[7], 'text', ARGV[8])
  if type(logged) == 'table' then
    -- A version that is not in the log does not stay in force.
    redis.call('HSET', KEYS[1], 'version', now, 'text', before, 'digest', digest)
    return logged
  end
  if ARGV[10] then
    redis.pcall('EXPIRE', KEYS[2], ARGV[10])
  end
  return { '1' }
elseif ARGV[1] == 'log' then
  local answer, bytes = {}, 0
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', tonumber(ARGV[2]))) do
    local fields = entry[2]
    local text = fields[8] or ''
    bytes = bytes + #text
    answer[#answer + 1] = fields[2] or ''
    answer[#answer + 1] = string.match(entry[1], '^%d+') or '0'
    answer[#answer + 1] = fields[4] or ''
    answer[#answer + 1] = fields[6] or ''
    answer[#answer + 1] = bytes <= tonumber(ARGV[3]) and '=' .. text or ''
  end
  return answer
elseif ARGV[1] == 'texts' then
  local answer, bytes, last = {}, 0, '+'
  while true do
    -- A few at a time, since each entry can be large.
    local entries = redis.call('XREVRANGE', KEYS[2], last, '-', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      local text = entry[2][8] or ''
      bytes = bytes + #text
      if #answer == tonumber(ARGV[2]) or bytes > tonumber(ARGV[3]) then
        return answer
      end
      answer[#answer + 1] = text
      last = '(' .. entry[1]
    end
    if #entries == 0 then
      return answer
    end
  end
end
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[2], '+', '-')) do
  if entry[2][2] == ARGV[2] then
    return { entry[2][8] or '' }
  end
end
return {}
