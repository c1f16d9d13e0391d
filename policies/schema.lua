-- Which schema documents a topic takes, and which change of one.
--
-- A document describes the payloads of a topic, and brokers check each message by it. The first version must be a sound
-- document; every later one must accept all that the version before it accepted, so that no consumer meets a payload it
-- was promised not to see and no producer is locked out. Judged are:
--
--   schema_document   the document: its draft, what keywords hold, references that stay inside
--   schema_pattern    its regular expressions
--   schema_shape      shapes that would make a validator's work explode
--   schema_change     what may change, keyword by keyword
--
-- The core has looked at the bytes before: JSON with each key once, at most 64 levels and 256 KiB, and numbers that Lua
-- keeps apart.

local base = require "lib.schema_base"
local change = require "lib.schema_change"
local document = require "lib.schema_document"
local shape = require "lib.schema_shape"

local schema = {}

local function judge(old, new)
  local meter = base.meter()
  base.allow(meter, base.READING)
  local doc = document.open(new, meter)
  shape.check(doc)
  if old == nil then
    return nil
  end
  base.allow(meter, base.READING)
  local ok, current = pcall(document.open, old, meter, true)
  if not ok and type(current) == "table" then
    return base.cut("the current version cannot be compared: " .. current.refused, 256)
  elseif not ok then
    error(current, 0)
  end
  base.allow(meter, base.COMPARING)
  return change.judge(current, doc, meter)
end

-- `old` is nil for a first version. Returns true, or false and the reason, which names keyword and JSON pointer. When
-- nothing but annotations (title, description, ...) changed it returns true and "unchanged": no new version is needed.
function schema.compatible(old, new)
  local ok, why, unchanged = pcall(judge, old, new)
  if ok and not why then
    return true, unchanged and "unchanged" or nil
  elseif ok then
    return false, why
  elseif type(why) == "table" and why.refused then
    return false, why.refused
  end
  error(why, 0)
end

return schema
