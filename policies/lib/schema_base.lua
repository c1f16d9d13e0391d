-- What the modules of the schema policy share: refusing, counting work, and looking at JSON values.

local base = {}

-- ---- refusing ----

-- Cuts a text to at most n bytes, between two characters of UTF-8.
function base.cut(text, n)
  if #text <= n then
    return text
  end
  n = n - 3
  while n > 0 and (string.byte(text, n + 1) & 0xC0) == 0x80 do
    n = n - 1
  end
  return string.sub(text, 1, n) .. "..."
end

local function escape_token(token)
  local out = {}
  for i = 1, #token do
    local c = string.sub(token, i, i)
    out[i] = c == "~" and "~0" or c == "/" and "~1" or c
  end
  return table.concat(out)
end

-- A path is a list of names and indexes; `base` is the pointer it starts from. Long ones lose their middle.
function base.pointer(path)
  local out = path.base or ""
  for _, token in ipairs(path) do
    out = out .. "/" .. escape_token(base.cut(tostring(token), 40))
    if #out > 120 then
      out = base.cut(out, 60)
    end
  end
  return out == "" and "at the root" or "at " .. out
end

function base.reason(path, keyword, text)
  return base.cut(base.pointer(path) .. ": " .. keyword .. ": " .. text, 256)
end

-- Ends the judgement. Whoever called pcall finds the reason in the field `refused`.
function base.refuse(path, keyword, text)
  error({ refused = base.reason(path, keyword, text) })
end

-- ---- counting work ----

-- A client writes the documents, so a hostile one must end in an answer and not in the sandbox's budget: every module
-- counts its steps, of some twenty instructions each, and may take so many. Reading has its own allowance, so that
-- what was
-- accepted once can always be read again as the current version.
base.READING = 80000
base.COMPARING = 50000
-- References that may be followed one inside the other.
base.DEPTH_MAX = 100

function base.meter()
  return { left = 0, keys = {} }
end

function base.allow(meter, steps)
  meter.left = steps
end

function base.spend(meter, steps)
  meter.left = meter.left - steps
  if meter.left < 0 then
    error({ refused = "the document is too complex to be judged: too many subschemas, references or combinations" })
  end
end

-- The keys of an object in their order, as a list that is made once: sorting them costs more than all else.
function base.keys(meter, object)
  local keys = meter.keys[object]
  if not keys then
    keys = {}
    for key in pairs(object) do
      keys[#keys + 1] = key
    end
    meter.keys[object] = keys
    base.spend(meter, 3 + 3 * #keys)
  end
  return keys
end

-- Looks for a schema in a value. Returns its pointer, nil when it is not there.
local function find(meter, value, wanted, path)
  base.spend(meter, 1)
  if value == wanted then
    return base.pointer(path)
  end
  local list = veena.is_array(value)
  for i, key in ipairs(list and value or base.keys(meter, value)) do
    local inner = value[list and i or key]
    if type(inner) == "table" then
      path[#path + 1] = list and i - 1 or key
      local found = find(meter, inner, wanted, path)
      if found then
        return found
      end
      path[#path] = nil
    end
  end
  return nil
end

-- Refuses a document for one of its schemas. Where that stands is looked up only now, since few are refused.
function base.refuse_schema(doc, schema, keyword, text)
  error({ refused = base.cut(find(doc.meter, doc.root, schema, {}) .. ": " .. keyword .. ": " .. text, 256) })
end

-- ---- JSON values ----

-- A list that may be empty; an object that may be.
base.is_list = veena.is_array

function base.is_object(value)
  return type(value) == "table" and not veena.is_array(value)
end

-- Are two JSON values the same? Recursion ends with what the parser lets nest.
function base.equal(meter, a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    base.spend(meter, 1)
    return a == b
  end
  base.spend(meter, 4)
  if veena.is_array(a) ~= veena.is_array(b) or #a ~= #b then
    return false
  end
  if veena.is_array(a) then
    base.spend(meter, #a // 4)
    for i, item in ipairs(a) do
      if item ~= b[i] and (type(item) ~= "table" or not base.equal(meter, item, b[i])) then
        return false
      end
    end
    return true
  end
  local names = base.keys(meter, a)
  if #names ~= #base.keys(meter, b) then
    return false
  end
  for _, name in ipairs(names) do
    if b[name] == nil or not base.equal(meter, a[name], b[name]) then
      return false
    end
  end
  return true
end

-- A value as a person reads it in a reason.
function base.show(value)
  if type(value) == "string" then
    return '"' .. base.cut(value, 40) .. '"'
  end
  if type(value) == "table" then
    return veena.is_array(value) and "a list" or "an object"
  end
  return tostring(value)
end

return base
