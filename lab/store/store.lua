-- The protected resource: serialises and numbers writes, may check a fence or a token, remembers who wrote.
-- KEYS[1] hash of the resource (version, value, fence, token), KEYS[2] append-only list of accepted writes,
-- KEYS[3] append-only list of every write and announcement, with the time by this server's clock:
-- [seconds, microseconds, "write" or "announce", grant id or token, value, version (0: rejected)].
-- ARGV[1] "read" followed by fence ("" for none), "1" to check it; "announce" followed by a token; or "write"
-- followed by value, grant id, fence ("" for none), version read, "1" to check fences, token ("" for none: a
-- write without one is not asked for it).
-- Answers {accepted, version, value or reason, highest fence seen or ""}.
local function executed(verb, whose, value, number)
  local now = redis.call('TIME')
  redis.call('RPUSH', KEYS[3], cjson.encode({now[1], now[2], verb, whose, value, number}))
end
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local highest = redis.call('HGET', KEYS[1], 'fence') or ''
local function refused(fence)
  if fence == '' then
    return 'no fence was given'
  end
  if highest ~= '' and tonumber(fence) < tonumber(highest) then
    return 'fenced: ' .. fence .. ' after ' .. highest
  end
end
local function remember(fence)
  highest = fence
  redis.call('HSET', KEYS[1], 'fence', fence)
end
if ARGV[1] == 'read' then
  if ARGV[3] == '1' then
    local why = refused(ARGV[2])
    if why then
      return {0, version, why, highest}
    end
    remember(ARGV[2])
  end
  return {1, version, redis.call('HGET', KEYS[1], 'value') or '', highest}
end
if ARGV[1] == 'announce' then
  redis.call('HSET', KEYS[1], 'token', ARGV[2])
  executed('announce', ARGV[2], '', version)
  return {1, version, '', highest}
end
local value, grant, fence, based_on, checks, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
if token ~= '' then
  local announced = redis.call('HGET', KEYS[1], 'token')
  if announced ~= token then
    executed('write', grant, value, 0)
    return {0, version, 'token: ' .. token .. ' after ' .. (announced or 'none') .. ' was announced', highest}
  end
end
if checks == '1' then
  local why = refused(fence)
  if why then
    executed('write', grant, value, 0)
    return {0, version, why, highest}
  end
  remember(fence)
end
version = version + 1
redis.call('HSET', KEYS[1], 'version', version, 'value', value)
redis.call('RPUSH', KEYS[2], cjson.encode({version, value, grant, fence, based_on}))
executed('write', grant, value, version)
return {1, version, '', highest}
