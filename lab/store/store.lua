-- The protected resource: serialises and numbers writes, may check a fence or a token, remembers who wrote.
-- KEYS[1] hash of the resource (version, value, fence, token), KEYS[2] append-only list of accepted writes.
-- ARGV[1] "read"; "announce" followed by a token; or "write" followed by value, grant id, fence ("" for none),
-- version read, "1" to check fences, token ("" for none: a write without one is not asked for it).
-- Answers {accepted, version, value or reason, highest fence seen or ""}.
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local highest = redis.call('HGET', KEYS[1], 'fence') or ''
if ARGV[1] == 'read' then
  return {1, version, redis.call('HGET', KEYS[1], 'value') or '', highest}
end
if ARGV[1] == 'announce' then
  redis.call('HSET', KEYS[1], 'token', ARGV[2])
  return {1, version, '', highest}
end
local value, grant, fence, based_on, checks, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if token ~= '' then
  local announced = redis.call('HGET', KEYS[1], 'token')
  if announced ~= token then
    return {0, version, 'token: ' .. token .. ' after ' .. (announced or 'none') .. ' was announced', highest}
  end
end
if checks == '1' then
  if fence == '' then
    return {0, version, 'no fence was given', highest}
  end
  if highest ~= '' and tonumber(fence) < tonumber(highest) then
    return {0, version, 'fenced: ' .. fence .. ' after ' .. highest, highest}
  end
  highest = fence
  redis.call('HSET', KEYS[1], 'fence', fence)
end
version = version + 1
redis.call('HSET', KEYS[1], 'version', version, 'value', value)
redis.call('RPUSH', KEYS[2], cjson.encode({version, value, grant, fence, based_on}))
return {1, version, '', highest}
