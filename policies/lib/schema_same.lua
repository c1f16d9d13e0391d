-- Comparing pairs of schemas, an old one and a new one: what was found before, and whether they are identical.
--
-- `s` is the state of one comparison, made by same.begin. Functions that compare answer nil or false when all is
-- well, else
-- the reason: a text, or true where nobody asks for one.

local base = require "lib.schema_base"
local document = require "lib.schema_document"
local keywords = require "lib.schema_keywords"

local same = {}

function same.begin(old, new, meter)
  return {
    old = old, new = new, keywords = new.keywords, meter = meter,
    path = {},      -- where the comparison stands
    quiet = 0,      -- above 0: reasons are not asked for
    literal = true, -- see same.differ
    depth = 0,
    refers = #old.references > 0 or #new.references > 0,
    judged = {}, different = {}, good = {}, good_count = 0, -- see same.remember
  }
end

function same.reason(s, keyword, text)
  return s.quiet > 0 or base.reason(s.path, keyword, text)
end

-- Looks a pair up in `memo` or has it judged by `run`, during which it counts as good. When a pair turns out bad,
-- all that
-- was found good meanwhile is forgotten, since it may rest on it. What was found bad stays bad: fewer assumptions make
-- nothing better.
function same.remember(s, memo, old, new, run)
  if not s.refers then
    return run(s, old, new) -- without references no pair comes again
  end
  local row = memo[old]
  if not row then
    row = {}
    memo[old] = row
  end
  local why = row[new]
  if why == false or why and (why ~= true or s.quiet > 0 or memo == s.different) then
    return why
  end
  local mark = s.good_count
  s.good_count = mark + 1
  s.good[mark + 1] = { row, new }
  row[new] = false
  s.depth = s.depth + 1
  if s.depth > base.DEPTH_MAX then
    error({ refused = "references lead deeper than " .. base.DEPTH_MAX .. " schemas: too deep to be compared" })
  end
  why = run(s, old, new)
  s.depth = s.depth - 1
  if why then
    for i = mark + 1, s.good_count do
      s.good[i][1][s.good[i][2]] = nil
    end
    s.good_count = mark
    row[new] = why
  end
  return why or false
end

-- May differ without a new version. Only of schemas: a property may have such a name.
local ANNOTATIONS = {
  title = true, description = true, examples = true, ["$comment"] = true, default = true, deprecated = true,
  readOnly = true, writeOnly = true,
}

local function part_differs(s, old, new)
  if old == nil or new == nil then
    return true
  elseif base.is_list(old) or base.is_list(new) then -- names in `dependencies`
    return not base.equal(s.meter, old, new)
  end
  return same.differ(s, old, new)
end

-- The values of one keyword.
function same.parts_differ(s, keyword, old, new)
  local form = keyword and keyword.form and keywords.form(keyword, old)
  if keyword and keyword.reference and not s.literal then
    return same.differ(s, document.target(s.old, old), document.target(s.new, new))
  elseif not form then
    return not base.equal(s.meter, old, new)
  elseif form ~= keywords.form(keyword, new) then
    return true
  elseif form == "map" then
    local names = base.keys(s.meter, old)
    if #names ~= #base.keys(s.meter, new) then
      return true
    end
    for _, name in ipairs(names) do
      if part_differs(s, old[name], new[name]) then
        return true
      end
    end
    return false
  elseif form == "list" then
    for i, part in ipairs(old) do
      if part_differs(s, part, new[i]) then
        return true
      end
    end
    return #old ~= #new
  end
  return same.differ(s, old, new)
end

-- Does the keyword count? Taken literally all do but annotations, else those that can refuse a value.
local function counts(s, name)
  if s.literal then
    return not ANNOTATIONS[name]
  end
  return s.keywords[name] ~= nil and s.keywords[name].asserts
end

local function objects_differ(s, old, new)
  for _, name in ipairs(base.keys(s.meter, old)) do
    if counts(s, name) and (new[name] == nil or same.parts_differ(s, s.keywords[name], old[name], new[name])) then
      return true
    end
  end
  for _, name in ipairs(base.keys(s.meter, new)) do
    if old[name] == nil and counts(s, name) then
      return true
    end
  end
  return false
end

-- Do two schemas differ in more than annotations? Taken literally (s.literal) in anything else, otherwise in what can
-- refuse a value, seen through references.
function same.differ(s, old, new)
  base.spend(s.meter, 2)
  if s.literal then
    if type(old) ~= "table" or type(new) ~= "table" then
      return old ~= new
    end
    return objects_differ(s, old, new)
  end
  old, new = document.resolve(s.old, old), document.resolve(s.new, new)
  if type(old) ~= "table" or type(new) ~= "table" then
    return old ~= new
  end
  return same.remember(s, s.different, old, new, objects_differ)
end

return same
