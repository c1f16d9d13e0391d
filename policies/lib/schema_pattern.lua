-- Regular expressions of a schema. Brokers check them with RE2 (Go), in linear time; what RE2 does not have is refused.
--
-- Linear time still pays for every partial match that is alive. Narad counts the steps that RE2 takes for a byte and
-- allows 32. The rule here is simpler: a pattern has at most 64 positions, those under a counted repetition taken as
-- often as it counts, or 2,000 when it is anchored with ^ and so begins at one place only; and at most 1,024 bytes.

local pattern = {}

local LENGTH_MAX = 1024
local POSITIONS_MAX = 64
local ANCHORED_MAX = 2000
local REPEAT_MAX = 1000 -- RE2's own
local GROUPS_MAX = 50
local COSTS_TOO_MUCH = "matching costs too much: anchor it with ^ or shorten its repetitions"

-- Bytes by name, for there is a number for each byte of the pattern below.
local B = {}
for i = 32, 126 do
  B[string.char(i)] = i
end

local BRACE = B["{"]

-- Bytes that are not literal. A brace is, unless a count is in it.
local SPECIAL = {}
local REPEATS = {}
-- Letters and digits that may stand behind a backslash.
local ESCAPES = {}
local function fill(set, text)
  for i = 1, #text do
    set[string.byte(text, i)] = true
  end
end
fill(SPECIAL, "*+?()|[\\")
fill(REPEATS, "*+?")
fill(ESCAPES, "AbBdDsSwWpPxQEzaftnrv0")

local function fault(text)
  error({ pattern = text })
end

local function is_digit(byte)
  return byte ~= nil and byte >= B["0"] and byte <= B["9"]
end

local function is_alnum(byte)
  return is_digit(byte) or byte >= B["a"] and byte <= B["z"] or byte >= B["A"] and byte <= B["Z"]
end

-- Steps over everything up to the next `byte`.
local function skip_past(p, byte, what)
  while p[p.at] ~= byte do
    if not p[p.at] then
      fault(what)
    end
    p.at = p.at + 1
  end
  p.at = p.at + 1
end

-- Steps over the escape at the backslash.
local function skip_escape(p)
  local byte = p[p.at + 1]
  if not byte then
    fault("ends with a backslash")
  elseif is_alnum(byte) and not ESCAPES[byte] then
    fault("RE2 has no \\" .. string.char(byte))
  end
  p.at = p.at + 2
  if byte == B["Q"] then
    while p[p.at] and not (p[p.at] == B["\\"] and p[p.at + 1] == B["E"]) do
      p.at = p.at + 1
    end
  elseif (byte == B["p"] or byte == B["P"] or byte == B["x"]) and p[p.at] == B["{"] then
    skip_past(p, B["}"], "{ without }")
  elseif byte == B["p"] or byte == B["P"] then
    p.at = p.at + 1
  elseif byte == B["x"] then
    p.at = p.at + 2
  end
end

-- The byte that ends a range which begins at the literal byte here; nil: there is none, or not of plain bytes.
local function range_end(p)
  local to = p[p.at + 1] == B["-"] and p[p.at + 2]
  return to and to ~= B["]"] and to ~= B["\\"] and to < 128 and p[p.at] < 128 and to or nil
end

-- Steps over the class at the bracket. A bracket that closes is literal where the class begins.
local function skip_class(p)
  p.at = p.at + (p[p.at + 1] == B["^"] and 2 or 1)
  local first = p.at
  while p[p.at] ~= B["]"] or p.at == first do
    if p[p.at] == B["\\"] then
      skip_escape(p)
    elseif p[p.at] == B["["] and p[p.at + 1] == B[":"] then
      skip_past(p, B["]"], "[: without :]")
    elseif p[p.at] then
      local to = range_end(p)
      if to and to < p[p.at] then
        fault("a range that ends before it begins")
      end
      p.at = p.at + (to and 3 or 1)
    else
      fault("[ without ]")
    end
  end
  p.at = p.at + 1
end

local function read_number(p)
  local n = nil
  while is_digit(p[p.at]) do
    n = math.min((n or 0) * 10 + p[p.at] - B["0"], REPEAT_MAX + 1)
    p.at = p.at + 1
  end
  return n
end

-- Reads {n}, {n,} or {n,m} and returns how often it repeats. Anything else is a literal brace: nil, and nothing read.
local function read_count(p)
  local from = p.at
  p.at = from + 1
  local least = read_number(p)
  local most = least
  if least and p[p.at] == B[","] then
    p.at = p.at + 1
    most = read_number(p) or least
  end
  if not least or p[p.at] ~= B["}"] then
    p.at = from
    return nil
  end
  p.at = p.at + 1
  if most > REPEAT_MAX or least > most then
    fault("a repetition counts to at most " .. REPEAT_MAX .. ", the smaller number first")
  end
  return math.max(most, 1)
end

-- Steps over what begins a group, to its body. True when it is flags alone, "(?i)", which has none.
local function skip_group_head(p)
  p.at = p.at + 1
  if p[p.at] ~= B["?"] then
    return false
  end
  local one, two = p[p.at + 1], p[p.at + 2]
  if one == B["="] or one == B["!"] or one == B["<"] and (two == B["="] or two == B["!"]) then
    fault("RE2 has no lookaround")
  elseif one == B["<"] or one == B["P"] and two == B["<"] then
    skip_past(p, B[">"], "a group's name does not end")
    return false
  end
  p.at = p.at + 1
  while p[p.at] ~= B[":"] and p[p.at] ~= B[")"] do
    local flag = p[p.at] and string.char(p[p.at]) or "?"
    if not string.find("imsU-", flag) then
      fault("there is no such kind of group")
    end
    p.at = p.at + 1
  end
  p.at = p.at + 1
  return p[p.at - 1] == B[")"]
end

local read_body

-- Reads the group at the parenthesis. Returns its positions, nil for flags.
local function read_group(p, depth)
  if depth == GROUPS_MAX then
    fault("groups nested deeper than " .. GROUPS_MAX)
  elseif skip_group_head(p) then
    return nil
  end
  local positions = read_body(p, depth + 1)
  if p[p.at] ~= B[")"] then
    fault("( without )")
  end
  p.at = p.at + 1
  return positions
end

-- Reads up to the end of a group or of the pattern. Returns how many positions it has.
function read_body(p, depth)
  local total = 0
  local last = nil -- positions of what a repetition would repeat
  while p[p.at] do
    local byte = p[p.at]
    local count = byte == BRACE and read_count(p)
    if not SPECIAL[byte] and not count then
      p.at = p.at + 1
      if byte < 0x80 or byte >= 0xC0 then -- else the rest of one character
        last = 1
        total = total + 1
      end
    elseif count or REPEATS[byte] then
      if not last then
        fault("a repetition without anything to repeat")
      end
      total = total + last * ((count or 1) - 1)
      if total > ANCHORED_MAX then -- before nested counts multiply any further
        fault(COSTS_TOO_MUCH)
      end
      p.at = p.at + (count and 0 or 1)
      p.at = p.at + (p[p.at] == B["?"] and 1 or 0)
      last = nil
    elseif byte == B[")"] then
      break
    elseif byte == B["|"] then
      p.at = p.at + 1
      p.alternatives = p.alternatives or depth == 0
      last = nil
    elseif byte == B["("] then
      last = read_group(p, depth)
      total = total + (last or 0)
    else
      (byte == B["["] and skip_class or skip_escape)(p)
      last = 1
      total = total + 1
    end
  end
  return total
end

-- What is wrong with a pattern; nil: nothing.
function pattern.fault(text)
  if #text > LENGTH_MAX then
    return "a pattern has at most " .. LENGTH_MAX .. " bytes"
  end
  local p = { string.byte(text, 1, -1) }
  p.at = 1
  local ok, positions = pcall(read_body, p, 0)
  if not ok and type(positions) == "table" then
    return positions.pattern
  elseif not ok then
    error(positions, 0)
  end
  local anchored = p[1] == B["^"] and not p.alternatives
  if positions > (anchored and ANCHORED_MAX or POSITIONS_MAX) then
    return COSTS_TOO_MUCH
  end
  return p[p.at] and ") without (" or nil
end

-- May a name match the pattern? True unless the pattern is plain text, with ^ before or $ behind, that is not there.
function pattern.may_match(text, name)
  if #text > LENGTH_MAX or #name > LENGTH_MAX then
    return true
  end
  local front = string.sub(text, 1, 1) == "^"
  local back = string.sub(text, -1) == "$"
  local plain = string.sub(text, front and 2 or 1, back and -2 or -1)
  for i = 1, #plain do
    if string.find("\\^$.|?*+()[]{}", string.sub(plain, i, i)) then
      return true
    end
  end
  if front and back then
    return name == plain
  elseif front then
    return string.sub(name, 1, #plain) == plain
  elseif back then
    return plain == "" or string.sub(name, -#plain) == plain
  end
  return string.find(name, plain) ~= nil
end

return pattern
