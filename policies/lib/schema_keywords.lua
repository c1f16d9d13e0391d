-- The keywords of JSON Schema: which drafts define them, what they may hold, and how the schemas in them are applied.
-- A keyword that the draft does not define is an annotation to a validator, and so it is here.

local base = require "lib.schema_base"
local pattern = require "lib.schema_pattern"

local keywords = {}

-- ---- what keywords hold: each function answers nil, or what was expected ----

local function is_text(value)
  return type(value) ~= "string" and "must be a string" or nil
end

local function is_flag(value)
  return type(value) ~= "boolean" and "must be true or false" or nil
end

-- A number in Lua ends at 1e308: what is larger cannot be compared.
local function is_number(value)
  if type(value) ~= "number" then
    return "must be a number"
  end
  return (value == math.huge or value == -math.huge) and "is too large a number" or nil
end

local function is_positive(value)
  return is_number(value) or value <= 0 and "must be above 0" or nil
end

local function is_count(value)
  return is_number(value) or (value < 0 or value % 1 ~= 0) and "must be a whole number from 0 up" or nil
end

-- Draft 4 has flags beside minimum and maximum, later drafts numbers of their own.
local function is_exclusive(value, doc)
  if doc.draft == 4 then
    return is_flag(value)
  end
  return is_number(value)
end

local function is_list(value)
  return not base.is_list(value) and "must be a list" or nil
end

local function is_object(value)
  return not base.is_object(value) and "must be an object" or nil
end

local function is_names(value, doc)
  if not base.is_list(value) then
    return "must be a list of names"
  end
  base.spend(doc.meter, #value // 2)
  local seen = {}
  for _, name in ipairs(value) do
    if type(name) ~= "string" or seen[name] then
      return "must be a list of names, each once"
    end
    seen[name] = true
  end
  return nil
end

local function is_required(value, doc)
  return is_names(value, doc) or doc.draft == 4 and #value == 0 and "must name something" or nil
end

local TYPES = { null = true, boolean = true, object = true, array = true, number = true, string = true, integer = true }

local function is_type(value)
  if type(value) == "string" then
    return not TYPES[value] and "there is no type " .. base.show(value) or nil
  elseif not base.is_list(value) or #value == 0 then
    return "must be a type or a list of types"
  end
  local seen = {}
  for _, name in ipairs(value) do
    if not TYPES[name] or seen[name] then
      return "must list types, each once; " .. base.show(name) .. " is none or stands twice"
    end
    seen[name] = true
  end
  return nil
end

local function is_enum(value, doc)
  return is_list(value) or doc.draft <= 6 and #value == 0 and "must list something" or nil
end

local function is_pattern(value, doc)
  if type(value) ~= "string" then
    return "must be a string"
  elseif doc.accepted then
    return nil
  end
  if doc.patterns[value] == nil then
    base.spend(doc.meter, 4 + #value)
    doc.patterns[value] = pattern.fault(value) or false
  end
  return doc.patterns[value] or nil
end

local function is_pattern_map(value, doc)
  local fault = is_object(value)
  for _, text in ipairs(fault and {} or base.keys(doc.meter, value)) do
    fault = fault or is_pattern(text, doc)
  end
  return fault
end

local function is_names_map(value, doc)
  local fault = is_object(value)
  for _, name in ipairs(fault and {} or base.keys(doc.meter, value)) do
    fault = fault or is_names(value[name], doc)
  end
  return fault
end

local function is_schema_list(value)
  return (not base.is_list(value) or #value == 0) and "must be a list of schemas, not an empty one" or nil
end

-- The reference is never repeated in the answer: it may be anything.
local function is_reference(value)
  if type(value) ~= "string" or string.sub(value, 1, 1) ~= "#" then
    return "only a reference inside the document is allowed, '#...'"
  end
  return #value > 1024 and "a reference has at most 1,024 bytes" or nil
end

local DRAFTS = {
  ["json-schema.org/draft/2020-12/schema"] = 2020, ["json-schema.org/draft/2019-09/schema"] = 2019,
  ["json-schema.org/draft-07/schema"] = 7, ["json-schema.org/draft-06/schema"] = 6,
  ["json-schema.org/draft-04/schema"] = 4,
}

-- The draft that a $schema names, with http or https, with or without an empty fragment; nil: none.
function keywords.draft(value)
  if type(value) ~= "string" or #value > 100 then
    return nil
  end
  local name = string.sub(value, -1) == "#" and string.sub(value, 1, -2) or value
  for _, scheme in ipairs{ "http://", "https://" } do
    if string.sub(name, 1, #scheme) == scheme then
      return DRAFTS[string.sub(name, #scheme + 1)]
    end
  end
  return nil
end

local function is_same_draft(value, doc)
  return keywords.draft(value) ~= doc.draft and "names another draft than the root" or nil
end

-- ---- the keywords ----

-- Can refuse a value.
local function asserts(check, since, till)
  return { check = check, asserts = true, since = since or 4, till = till or 2020 }
end

-- Refuses nothing.
local function notes(check, since)
  return { check = check, since = since or 4, till = 2020 }
end

-- Holds schemas: "one", a "list", a "map" by name, or "items", a list or one (see keywords.form). They are applied
-- to the same value ("here",
-- or "negated" where failing counts too), to values inside it ("child"), or not at all ("store").
local function applies(form, how, check, since, till)
  local keyword = asserts(check, since, till)
  keyword.form, keyword.how = form, how
  return keyword
end

-- Holds schemas that only a reference applies.
local function stores()
  local keyword = notes(is_object)
  keyword.form, keyword.how = "map", "store"
  return keyword
end

-- Gives its schema a name for references.
local function names(since)
  local keyword = notes(is_text, since)
  keyword.names = true
  return keyword
end

local function refers(since, till)
  local keyword = asserts(is_reference, since, till)
  keyword.how, keyword.reference = "here", true
  return keyword
end

local KEYWORDS = {
  ["$ref"] = refers(),
  ["$dynamicRef"] = refers(2020),
  ["$recursiveRef"] = refers(2019, 2019),
  ["$schema"] = notes(is_same_draft),
  ["$id"] = notes(is_text, 6),
  ["$anchor"] = names(2019),
  ["$dynamicAnchor"] = names(2020),
  ["$comment"] = notes(is_text, 7),
  title = notes(is_text),
  description = notes(is_text),
  examples = notes(is_list, 6),
  deprecated = notes(is_flag, 2019),
  readOnly = notes(is_flag, 7),
  writeOnly = notes(is_flag, 7),

  type = asserts(is_type),
  enum = asserts(is_enum),
  const = asserts(nil, 6),
  multipleOf = asserts(is_positive),
  minimum = asserts(is_number),
  maximum = asserts(is_number),
  exclusiveMinimum = asserts(is_exclusive),
  exclusiveMaximum = asserts(is_exclusive),
  minLength = asserts(is_count),
  maxLength = asserts(is_count),
  minItems = asserts(is_count),
  maxItems = asserts(is_count),
  minProperties = asserts(is_count),
  maxProperties = asserts(is_count),
  minContains = asserts(is_count, 2019),
  maxContains = asserts(is_count, 2019),
  pattern = asserts(is_pattern),
  format = asserts(is_text),
  uniqueItems = asserts(is_flag),
  required = asserts(is_required),
  dependentRequired = asserts(is_names_map, 2019),
  contentEncoding = asserts(is_text, 7),
  contentMediaType = asserts(is_text, 7),
  contentSchema = applies("one", "store", nil, 2019), -- validators look at the bytes only if told to

  allOf = applies("list", "here", is_schema_list),
  anyOf = applies("list", "here", is_schema_list),
  oneOf = applies("list", "negated", is_schema_list),
  ["not"] = applies("one", "negated"),
  ["if"] = applies("one", "negated", nil, 7),
  ["then"] = applies("one", "here", nil, 7),
  ["else"] = applies("one", "here", nil, 7),
  dependentSchemas = applies("map", "here", is_object, 2019),
  dependencies = applies("map", "here", is_object), -- where a list of names may stand for a schema
  properties = applies("map", "child", is_object),
  patternProperties = applies("map", "child", is_pattern_map),
  additionalProperties = applies("one", "child"),
  propertyNames = applies("one", "child", nil, 6),
  unevaluatedProperties = applies("one", "child", nil, 2019),
  items = applies("items", "child"),
  prefixItems = applies("list", "child", is_schema_list, 2020),
  additionalItems = applies("one", "child", nil, 4, 2019),
  contains = applies("one", "child", nil, 6),
  unevaluatedItems = applies("one", "child", nil, 2019),
  ["$defs"] = stores(), -- drafts before 2019-09 do not know it, and references into it work all the same
  definitions = stores(),
}

-- How a keyword's value holds schemas: "one", "list" or "map"; nil: it holds none.
function keywords.form(keyword, value)
  local form = keyword.form
  if form == "items" then
    return base.is_list(value) and "list" or "one"
  end
  return form
end

-- The keywords of one draft, by name.
function keywords.of(draft)
  local out = {}
  for name, keyword in pairs(KEYWORDS) do
    if keyword.since <= draft and draft <= keyword.till then
      out[name] = keyword
    end
  end
  return out
end

-- `dependencies` may hold a list of names where a schema is expected.
function keywords.are_names(value, doc)
  return is_names(value, doc) == nil
end

return keywords
