-- What scripts see, and how they are run. Gets functions of Python; returns functions for Python.
-- call(...) and pcall(...) run a command: the former raises an object that explain(object) turns into {err=...}.
-- They come from Python, without Lua around them, so that the frame of a script that says "return redis.call(...)"
-- is still there to tell its line. random(): in [0, 1). digest(s): SHA-1 in hex, for scripts. missing(name) raises: a
-- script uses what is not simulated; endless(bound) as well: it did not end within that. json_decode(text) and the
-- functions of bits(name) raise what explain(object) turns into a text; they come from Python for the same reason.
local redis_call, redis_pcall, explain, random, digest, missing, endless, json_decode, bits, million_steps_max = ...
local error, type, rawget, rawset, pairs, unpack, select = error, type, rawget, rawset, pairs, unpack, select
local setmetatable, pcall, xpcall, tostring, loadstring, setfenv = setmetatable, pcall, xpcall, tostring, loadstring, setfenv
local getinfo, sethook, floor, format, gsub = debug.getinfo, debug.sethook, math.floor, string.format, string.gsub
local CHUNK = '@user_script'

-- Tables that scripts can read and not change: an empty one in front of the real one.
local behind = {}
local function seal(real)
  local front = setmetatable({}, {
    __index = real,
    __newindex = function() error('Attempt to modify a readonly table', 2) end,
    __metatable = false,
  })
  behind[front] = real
  return front
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  call = redis_call, pcall = redis_pcall,
}

-- What real servers have and the simulation has not: to use it ends the script, and is noted.
local function lacking(name) return function() missing(name) end end
local function library(name)
  return setmetatable({}, {__index = function(_, key) return lacking(name .. '.' .. tostring(key)) end})
end
redis.setresp, redis.acl_check_cmd = lacking('redis.setresp'), lacking('redis.acl_check_cmd')

local function one_field(field)
  return function(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
      return {err = 'ERR wrong number or type of arguments'}
    end
    if field == 'err' then text = gsub(text, '^%-', '') end
    return {[field] = text}
  end
end
redis.error_reply = one_field('err')
redis.status_reply = one_field('ok')

redis.sha1hex = digest
function redis.log() end
function redis.set_repl() end
function redis.breakpoint() return false end
function redis.debug() end
function redis.replicate_commands() return true end

-- cjson, as lua-cjson does it.
local cjson = {null = newproxy()}
local ESCAPES = {['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n',
  ['\r'] = '\\r', ['\t'] = '\\t', ['\127'] = '\\u007f'}
local function escape(character) return ESCAPES[character] or format('\\u%04x', character:byte()) end
local function quoted(text) return '"' .. gsub(text, '[%c"\\/\127]', escape) .. '"' end

local encode
local function encode_table(value)
  local count, most = 0, 0
  for key in pairs(value) do
    if type(key) ~= 'number' or key < 1 or floor(key) ~= key then most = -1 break end
    count = count + 1
    if key > most then most = key end
  end
  local parts = {}
  if most > 0 then
    for index = 1, most do parts[index] = encode(value[index]) end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  for key, item in pairs(value) do
    if type(key) == 'number' then key = format('%.14g', key) end
    parts[#parts + 1] = quoted(key) .. ':' .. encode(item)
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

function encode(value)
  local kind = type(value)
  if kind == 'string' then return quoted(value) end
  if kind == 'number' then
    if value ~= value or value == 1 / 0 or value == -1 / 0 then
      error('Cannot serialise number: must not be NaN or Inf', 0)
    end
    return format('%.14g', value)
  end
  if kind == 'boolean' then return tostring(value) end
  if kind == 'table' then return encode_table(value) end
  if value == nil or value == cjson.null then return 'null' end
  error('Cannot serialise ' .. kind .. ': type not supported', 0)
end
cjson.encode = encode

-- Decoding: next_token(text, at) says what begins there, its value, and where the rest of the text begins.
local PLAIN = {['{'] = 'OBJ_BEGIN', ['}'] = 'OBJ_END', ['['] = 'ARR_BEGIN', [']'] = 'ARR_END', [':'] = 'COLON',
  [','] = 'COMMA'}
local UNESCAPED = {b = '\b', f = '\f', n = '\n', r = '\r', t = '\t', ['"'] = '"', ['\\'] = '\\', ['/'] = '/'}
local NESTED_MAX = 1000

local function utf8(point)
  if point < 0x80 then return string.char(point) end
  local bytes, lead, most = {}, 0, 0x20
  repeat
    table.insert(bytes, 1, string.char(0x80 + point % 64))
    point, lead, most = floor(point / 64), floor(lead / 2) + 0x80, most / 2
  until point < most
  lead = ({0xc0, 0xe0, 0xf0})[#bytes]
  return string.char(lead + point) .. table.concat(bytes)
end

local function four_digits(text, at)
  local digits = text:match('^%x%x%x%x', at)
  return digits and tonumber(digits, 16)
end

local function unicode(text, at) -- after \u: the bytes, and where the rest begins
  local point = four_digits(text, at)
  if not point then return end
  at = at + 4
  if point >= 0xdc00 and point < 0xe000 then return end
  if point >= 0xd800 and point < 0xdc00 then
    local low = text:sub(at, at + 1) == '\\u' and four_digits(text, at + 2)
    if not low or low < 0xdc00 or low >= 0xe000 then return end
    point, at = 0x10000 + (point - 0xd800) * 0x400 + (low - 0xdc00), at + 6
  end
  return utf8(point), at
end

local function string_token(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = text:find('["\\%c]', from)
    if not stop or stop > #text then return 'ERROR', 'unexpected end of string', #text + 1 end
    local character = text:sub(stop, stop)
    parts[#parts + 1] = text:sub(from, stop - 1)
    if character == '"' then return 'STRING', table.concat(parts), stop + 1 end
    if character == '\\' then
      local escaped = text:sub(stop + 1, stop + 1)
      if escaped == 'u' then
        local bytes, rest = unicode(text, stop + 2)
        if not bytes then return 'ERROR', 'invalid unicode escape code', stop end
        parts[#parts + 1], from = bytes, rest
      elseif UNESCAPED[escaped] then
        parts[#parts + 1], from = UNESCAPED[escaped], stop + 2
      else
        return 'ERROR', 'invalid escape code', stop
      end
    else
      parts[#parts + 1], from = character, stop + 1
    end
  end
end

local WORDS = {['true'] = {'BOOLEAN', true}, ['false'] = {'BOOLEAN', false}, ['null'] = {'NULL', cjson.null}}
local function next_token(text, at)
  at = text:find('[^ \t\r\n]', at) or #text + 1
  if at > #text then return 'END', nil, at, at end
  local character = text:sub(at, at)
  if PLAIN[character] then return PLAIN[character], nil, at + 1, at end
  if character == '"' then
    local kind, value, rest = string_token(text, at)
    return kind, value, rest, kind == 'ERROR' and rest or at
  end
  for word, found in pairs(WORDS) do
    if text:sub(at, at + #word - 1) == word then return found[1], found[2], at + #word, at end
  end
  local number = text:match('^-?%d+%.?%d*[eE][-+]?%d+', at) or text:match('^-?%d+%.?%d*', at)
  if number then return 'NUMBER', tonumber(number), at + #number, at end
  return 'ERROR', 'invalid token', at, at
end

local function wrong(expected, kind, value, at)
  local seen = kind == 'ERROR' and value or 'T_' .. kind
  error(format('Expected %s but found %s at character %d', expected, seen, at), 0)
end

local decode_value
local function decode_object(text, at, depth)
  local found, kind, value, rest, where = {}, next_token(text, at)
  if kind == 'OBJ_END' then return found, rest end
  while true do
    if kind ~= 'STRING' then wrong('object key string', kind, value, where) end
    local key = value
    kind, value, rest, where = next_token(text, rest)
    if kind ~= 'COLON' then wrong('colon', kind, value, where) end
    found[key], rest = decode_value(text, depth, next_token(text, rest))
    kind, value, rest, where = next_token(text, rest)
    if kind == 'OBJ_END' then return found, rest end
    if kind ~= 'COMMA' then wrong('comma or object end', kind, value, where) end
    kind, value, rest, where = next_token(text, rest)
  end
end

local function decode_array(text, at, depth)
  local found, count, kind, value, rest, where = {}, 0, next_token(text, at)
  if kind == 'ARR_END' then return found, rest end
  while true do
    count = count + 1
    found[count], rest = decode_value(text, depth, kind, value, rest, where)
    kind, value, rest, where = next_token(text, rest)
    if kind == 'ARR_END' then return found, rest end
    if kind ~= 'COMMA' then wrong('comma or array end', kind, value, where) end
    kind, value, rest, where = next_token(text, rest)
  end
end

function decode_value(text, depth, kind, value, rest, where)
  if kind == 'STRING' or kind == 'NUMBER' or kind == 'BOOLEAN' or kind == 'NULL' then return value, rest end
  local nested = kind == 'OBJ_BEGIN' and decode_object or kind == 'ARR_BEGIN' and decode_array
  if not nested then wrong('value', kind, value, where) end
  if depth == NESTED_MAX then
    error(format('Found too many nested data structures (%d) at character %d', depth + 1, where), 0)
  end
  return nested(text, rest, depth + 1)
end

local function decoded(text) -- whether it is JSON, and what it says, or why not
  return pcall(function()
    local found, rest = decode_value(text, 0, next_token(text, 1))
    local kind, value, _, where = next_token(text, rest)
    if kind ~= 'END' then wrong('the end', kind, value, where) end
    return found
  end)
end
cjson.decode = json_decode
setmetatable(cjson, {__index = function(_, key) return lacking('cjson.' .. tostring(key)) end})

local bit = {}
for name in ('tobit bnot bswap tohex band bor bxor lshift rshift arshift rol ror'):gmatch('%a+') do
  bit[name] = bits(name)
end

local own_math = {}
for name, value in pairs(math) do own_math[name] = value end
function own_math.random(low, high)
  local drawn = random()
  if low == nil then return drawn end
  if high == nil then low, high = 1, low end
  if low > high then error("bad argument #1 to 'random' (interval is empty)", 2) end
  return floor(drawn * (high - low + 1)) + low
end
function own_math.randomseed() end

-- A coroutine counts its own steps: each of them gets the hook.
local step
local threads = {}
for name, value in pairs(coroutine) do threads[name] = value end
function threads.create(body)
  local thread = coroutine.create(body)
  sethook(thread, step, '', 1000000)
  return thread
end
local function resumed(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
function threads.wrap(body)
  local thread = threads.create(body)
  return function(...) return resumed(coroutine.resume(thread, ...)) end
end

local visible = {
  _VERSION = _VERSION, assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs,
  next = next, pairs = pairs, rawequal = rawequal, select = select,
  tonumber = tonumber, type = type, unpack = unpack,
  coroutine = seal(threads), string = seal(string), table = seal(table), math = seal(own_math),
  redis = seal(redis), cjson = seal(cjson),
  bit = seal(bit), struct = seal(library('struct')), cmsgpack = seal(library('cmsgpack')),
}

-- As what server scripts see themselves: they may ask before they use something.
local function appear(product, version, major, minor, patch)
  local number = major * 65536 + minor * 256 + patch
  if product == 'valkey' then
    redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = '7.2.4', 0x00070204
    redis.VALKEY_VERSION, redis.VALKEY_VERSION_NUM, redis.SERVER_NAME = version, number, 'valkey'
  else
    redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = version, number
    redis.VALKEY_VERSION, redis.VALKEY_VERSION_NUM, redis.SERVER_NAME = nil, nil, nil
  end
  rawset(visible, 'server', product == 'valkey' and visible.redis or nil)
  rawset(visible, 'os', (product == 'valkey' or major >= 8) and seal(library('os')) or nil)
end
local globals = seal(visible)
setmetatable(visible, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
visible._G = globals
getmetatable('').__metatable = false

-- What was raised, as scripts see it: the table of a command that failed shows as its text.
local function shown(raised)
  if type(raised) == 'userdata' then raised = explain(raised) end
  if type(raised) == 'table' and type(rawget(raised, 'err')) == 'string' then return raised.err end
  return raised
end
local steps = 0
local function stop() steps = million_steps_max + 1 end
local function goes_on(ok, first, ...) -- no script catches its own end
  if steps > million_steps_max then error(first, 0) end
  return ok, first, ...
end
local function caught(ok, first, ...)
  goes_on(ok, first)
  if not ok then return false, shown(first) end
  return ok, first, ...
end
function visible.pcall(...) return caught(pcall(...)) end
function visible.xpcall(body, on_error)
  return goes_on(xpcall(body, function(raised) return on_error(shown(raised)) end))
end

-- Addresses of objects must not show: they differ from run to run.
function visible.tostring(value)
  local text = tostring(value)
  if type(value) == 'string' or type(value) == 'number' then return text end
  return (gsub(text, '0x%x+', '0x0'))
end
function visible.rawget(where, key) return rawget(behind[where] or where, key) end
function visible.rawset(where, key, value)
  if behind[where] then error('Attempt to modify a readonly table', 0) end
  return rawset(where, key, value)
end
function visible.setmetatable(where, meta)
  if behind[where] then error('Attempt to modify a readonly table', 0) end
  return setmetatable(where, meta)
end
function visible.loadstring(text, name)
  local made, complaint = loadstring(text, name)
  if not made then return nil, complaint end
  return setfenv(made, globals)
end
function visible.load(source, name)
  local parts = {}
  for part in source do
    if part == '' then break end
    parts[#parts + 1] = part
  end
  return visible.loadstring(table.concat(parts), name)
end
function visible.collectgarbage() return 0 end
function visible.gcinfo() return 0 end

local function compile(source)
  local made, complaint = loadstring(source, CHUNK)
  if not made then return nil, complaint end
  return setfenv(made, globals)
end

-- Where in the script an error came from: the innermost function that is the script's own.
local function within()
  local level, info = 3, getinfo(3, 'Sl')
  while info and info.source ~= CHUNK do
    level = level + 1
    info = getinfo(level, 'Sl')
  end
  return info
end
local function line()
  local info = within()
  return info and info.currentline
end
local function caller() -- the line from which a function of Python's was called, if a script did it itself
  local info = getinfo(3, 'Sl')
  return info and info.source == CHUNK and info.currentline
end
local function handler(raised)
  local info = within()
  local text, kind = nil, type(raised)
  if kind == 'userdata' then raised = explain(raised) end
  if type(raised) == 'table' then
    text = rawget(raised, 'err') or 'ERR unknown error'
  else
    text, kind = 'ERR ' .. tostring(raised), type(raised)
  end
  return {text = text, kind = kind, source = info and info.source, line = info and info.currentline}
end

-- The answer in a form that costs little to hand over: simple values as they are; others with their kind first.
local function convert(answer)
  local kind = type(answer)
  if kind ~= 'table' then
    if kind == 'string' or kind == 'number' or answer == true then return answer end
    return nil
  end
  local failed = rawget(answer, 'err')
  if type(failed) == 'string' then return 'error', failed end
  local status = rawget(answer, 'ok')
  if type(status) == 'string' then return 'status', status end
  local count, simple = 0, true
  while true do
    local item = rawget(answer, count + 1)
    if item == nil then break end
    count = count + 1
    if type(item) == 'table' then simple = false end
  end
  if simple and count < 1000 then return 'flat', count, unpack(answer, 1, count) end
  return 'array', count, answer
end

local function item(answer, index) return convert(answer[index]) end

function step()
  steps = steps + 1
  if steps > million_steps_max then endless(million_steps_max .. ' million steps') end
end
sethook(step, '', 1000000)

local function run(script, key_count, ...)
  local keys, argv = {}, {}
  local all = {...}
  for index = 1, key_count do keys[index] = all[index] end
  for index = key_count + 1, #all do argv[index - key_count] = all[index] end
  visible.KEYS, visible.ARGV = keys, argv
  steps = 0
  local ok, answer = xpcall(script, handler)
  if ok then return convert(answer) end
  return 'raised', answer.text, answer.source, answer.line, answer.kind
end

local function status(text) return {ok = text} end
local function failure(text) return {err = text} end

return compile, run, item, status, failure, appear, stop, line, caller, decoded
