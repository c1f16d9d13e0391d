-- Shapes of a document that a validator pays for, or stumbles over, beyond what a payload's size accounts for. Refused:
--
--   - more than 64 ways from one value to one schema, counted over all levels: a chain of definitions that each apply
--     the next one twice doubles the work with every link;
--   - recursion that reaches the same inner value twice on one level, as allOf does with two branches that both recurse
--     through `items`: the work doubles with every level of the payload;
--   - a cycle of references that applies a schema to the same value again through not, if or oneOf: where failing
--     counts, the result would depend on where the cycle was entered.
--
-- Only references make such shapes, so a document without any passes at once.

local base = require "lib.schema_base"
local pattern = require "lib.schema_pattern"

local shape = {}

local WAYS_MAX = 64

local function refuse(doc, schema, text)
  base.refuse_schema(doc, schema, "$ref", text)
end

-- A schema that is one reference and nothing else meets what its target meets; nil: a loop, or a boolean.
local function skip_references(doc, schema)
  local seen = {}
  base.spend(doc.meter, 2)
  while type(schema) == "table" and not seen[schema] do
    local edges = doc.edges[schema]
    if #edges ~= 1 or edges[1].keyword ~= "$ref" then
      return schema
    end
    seen[schema] = true
    schema = edges[1].target
  end
  return nil
end

-- Strongly connected components (Tarjan), without recursion: component[a] == component[b] when each leads to the other.
-- Their numbers fall along every edge that leads from one to another.
local function find_components(doc)
  local component, index, low, cursor = {}, {}, {}, {}
  local pending, calls, found, complete = {}, {}, 0, 0
  for _, start in ipairs(doc.schemas) do
    calls[1] = not index[start] and start or nil
    while #calls > 0 do
      base.spend(doc.meter, 2)
      local at = calls[#calls]
      if not index[at] then
        found = found + 1
        index[at], low[at], cursor[at] = found, found, 0
        pending[#pending + 1] = at
      end
      cursor[at] = cursor[at] + 1
      local edge = doc.edges[at][cursor[at]]
      local to = edge and edge.how ~= "store" and edge.target
      if not edge then
        calls[#calls] = nil
        local caller = calls[#calls]
        if caller then
          low[caller] = math.min(low[caller], low[at])
        end
        if low[at] == index[at] then
          complete = complete + 1
          repeat
            local member = table.remove(pending)
            component[member] = complete
          until member == at
        end
      elseif type(to) == "table" and not index[to] then
        calls[#calls + 1] = to
      elseif type(to) == "table" and not component[to] then
        low[at] = math.min(low[at], index[to])
      end
    end
  end
  return component
end

-- ---- what is applied inside a value ----

local OF_OBJECTS = {
  properties = true, patternProperties = true, additionalProperties = true, unevaluatedProperties = true,
}

-- Can two schemas that are applied inside a value meet in the same inner value? When in doubt they can.
local function can_meet(a, b)
  local one, two = a.edge.keyword, b.edge.keyword
  local key, other = a.edge.key, b.edge.key
  if one == "propertyNames" or two == "propertyNames" then
    return one == two
  elseif OF_OBJECTS[one] ~= OF_OBJECTS[two] then
    return false
  elseif one == "properties" and two == "properties" or key and other and not OF_OBJECTS[one] then
    return key == other -- of tuples the keys are places
  elseif one == "properties" and two == "patternProperties" then
    return pattern.may_match(other, key)
  elseif one == "patternProperties" and two == "properties" then
    return pattern.may_match(key, other)
  end
  -- Within one schema, `additional` and `unevaluated` are what the others leave, and `items` what the tuple leaves.
  return a.owner ~= b.owner or one == two or one == "contains" or two == "contains"
end

-- From this inner schema the recursion comes back to the value's own.
local function note_recursion(s, owner, edge)
  local met = { owner = owner, edge = edge }
  local by_name = edge.keyword == "properties"
  for _, other in ipairs(by_name and s.unnamed or s.recursions) do
    base.spend(s.doc.meter, 2)
    if can_meet(met, other) then
      refuse(s.doc, s.entry, "the recursion reaches one inner value in two ways, by " .. edge.keyword .. " and " ..
        other.edge.keyword)
    end
  end
  s.recursions[#s.recursions + 1] = met
  if not by_name then
    s.unnamed[#s.unnamed + 1] = met
  elseif s.named[edge.key] then
    refuse(s.doc, s.entry, "the recursion reaches one inner value in two ways, both by the property " ..
      base.show(edge.key))
  else
    s.named[edge.key] = true
  end
end

local function note_inner(s, owner, edge)
  local to = skip_references(s.doc, edge.target)
  if to and s.component[to] == s.component[s.entry] then
    note_recursion(s, owner, edge)
  elseif to then
    local row = s.met[to]
    if not row then
      row = {}
      s.met[to] = row
      s.inner[#s.inner + 1] = to
    end
    local key = edge.key or edge.keyword
    row[key] = (row[key] or 0) + 1
    s.most[to] = math.max(s.most[to] or 0, row[key])
  end
end

-- ---- what one value meets ----

-- Goes every way from a schema to others that are applied to the same value. `depth` and `negated` count the steps and
-- the negations on the way here.
local function follow(s, schema, depth, negated)
  base.spend(s.doc.meter, 2)
  s.ways[schema] = (s.ways[schema] or 0) + s.weight
  if s.ways[schema] > WAYS_MAX then
    refuse(s.doc, schema, "one value reaches this schema in more than " .. WAYS_MAX .. " ways")
  elseif depth > base.DEPTH_MAX then
    refuse(s.doc, schema, "more than " .. base.DEPTH_MAX .. " schemas apply one through the other to one value")
  end
  s.negated[schema] = negated -- while it is on the way
  for _, edge in ipairs(s.doc.edges[schema]) do
    local to = edge.target
    local inner = negated + (edge.how == "negated" and 1 or 0)
    base.spend(s.doc.meter, 1)
    if edge.how == "child" then
      note_inner(s, schema, edge)
    elseif edge.how ~= "store" and type(to) == "table" then
      if not s.negated[to] then
        follow(s, to, depth + 1, inner)
      elseif inner > s.negated[to] then
        refuse(s.doc, to, "a cycle applies this schema to the same value again through not, if or oneOf")
      end
    end
  end
  s.negated[schema] = nil
end

-- The schemas that are applied to a value to begin with: the root's, those of inner values, and definitions, each
-- before
-- what it leads to.
local function find_entries(doc, component)
  local entries, seen = {}, {}
  local function enter(schema)
    local entry = skip_references(doc, schema)
    if entry and not seen[entry] then
      seen[entry] = #entries + 1
      entries[#entries + 1] = entry
    end
  end
  enter(doc.root)
  for _, schema in ipairs(doc.schemas) do
    for _, edge in ipairs(doc.edges[schema]) do
      if edge.how == "child" or edge.how == "store" then
        enter(edge.target)
      end
    end
  end
  base.spend(doc.meter, 4 * #entries)
  table.sort(entries, function(a, b)
    if component[a] ~= component[b] then
      return component[a] > component[b]
    end
    return seen[a] < seen[b]
  end)
  return entries
end

function shape.check(doc)
  if #doc.references == 0 then
    return
  end
  local component = find_components(doc)
  local weights = {} -- by component: in how many ways a value may meet its schemas from the levels above
  for _, entry in ipairs(find_entries(doc, component)) do
    local weight = weights[component[entry]] or 1
    if #doc.edges[entry] > 0 or weight > WAYS_MAX then
      local s = {
        doc = doc, component = component, entry = entry, weight = weight, ways = {}, negated = {},
        recursions = {}, named = {}, unnamed = {}, inner = {}, met = {}, most = {},
      }
      follow(s, entry, 0, 0)
      for _, to in ipairs(s.inner) do
        weights[component[to]] = math.max(weights[component[to]] or 1, weight * s.most[to])
      end
    end
  end
end

return shape
