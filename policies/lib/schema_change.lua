-- May one schema document replace another? Only if every value that the old one accepted stays valid.
--
-- The two are compared keyword by keyword, each with the same keyword of the other side; what is not understood may
-- stay
-- as it is, or go where its going can only widen. Two exceptions, both on purpose: a property may be added where
-- the old
-- schema let anything pass, and none may be removed. References are followed on both sides. A pair of schemas that is
-- being compared further up counts as compatible, as recursive types are compared.

local base = require "lib.schema_base"
local document = require "lib.schema_document"
local pattern = require "lib.schema_pattern"
local same = require "lib.schema_same"

local change = {}
local reason = same.reason

-- ---- the rules: rule(s, old, new, name) looks at the keyword `name` of two schemas; a side may lack it ----

local covers
local rules = {}

local function below(s, keyword, key, old, new)
  local path = s.path
  path[#path + 1] = keyword
  if key ~= nil then
    path[#path + 1] = key
  end
  local why = covers(s, old, new)
  if key ~= nil then
    path[#path] = nil
  end
  path[#path] = nil
  return why
end

-- As it was, or gone.
local function kept(s, old, new, name)
  if new[name] == nil or new[name] == old[name] then
    return nil
  elseif old[name] == nil then
    return reason(s, name, "may not be added")
  end
  return same.parts_differ(s, s.keywords[name], old[name], new[name])
    and reason(s, name, "may only stay as it is or go")
end
for _, name in ipairs{
  "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema", "oneOf", "not", "propertyNames",
  "dependentRequired", "dependentSchemas", "dependencies",
} do
  rules[name] = kept
end

-- Understood in an unchanged part only.
local function frozen(s, old, new, name)
  return same.differ(s, old, new) and reason(s, name, "is only understood where nothing changes")
end
for _, name in ipairs{ "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef" } do
  rules[name] = frozen
end

function rules.type(s, old, new)
  if new.type == nil or new.type == old.type then
    return nil
  elseif old.type == nil then
    return reason(s, "type", "may not be added")
  end
  local allowed = {}
  for _, name in ipairs(type(new.type) == "table" and new.type or { new.type }) do
    allowed[name] = true
  end
  for _, name in ipairs(type(old.type) == "table" and old.type or { old.type }) do
    if not allowed[name] and not (name == "integer" and allowed.number) then
      return reason(s, "type", base.show(name) .. " is no longer allowed")
    end
  end
  return nil
end

-- Is a value in a list? The place where it is expected is looked at first, since lists mostly grow at their end.
local function contains(s, list, value, place)
  if base.equal(s.meter, list[place], value) then
    return true
  end
  for _, item in ipairs(list) do
    if base.equal(s.meter, item, value) then
      return true
    end
  end
  return false
end

-- The values that enum and const leave, nil: any. Both together leave what they have in common.
local function values_of(s, schema)
  local const = s.keywords.const and schema.const
  if schema.const == nil or not s.keywords.const then
    return schema.enum
  elseif schema.enum == nil or contains(s, schema.enum, const, 1) then
    return { const }
  end
  return {}
end

local function values(s, old, new, name)
  local before, after = values_of(s, old), values_of(s, new)
  if not after or before == after then
    return nil
  elseif not before then
    return reason(s, name, "may not be added")
  end
  local plain = {}
  for _, value in ipairs(after) do
    if type(value) ~= "table" then
      plain[value] = true
    end
  end
  base.spend(s.meter, (#before + #after) // 4)
  for place, value in ipairs(before) do
    local found = plain[value]
    if type(value) == "table" then
      found = contains(s, after, value, place)
    end
    if not found then
      return reason(s, name, base.show(value) .. " is no longer allowed")
    end
  end
  return nil
end
rules.enum, rules.const = values, values

-- Draft 4: exclusiveMinimum and exclusiveMaximum are flags beside minimum and maximum.
local function bound_with_flag(s, old, new, name, flag, sign)
  if new[name] == nil then
    return nil
  elseif old[name] == nil then
    return reason(s, name, "may not be added")
  end
  local tighter = new[name] ~= old[name] and (new[name] > old[name]) == (sign > 0)
  if tighter or new[name] == old[name] and new[flag] and not old[flag] then
    return reason(s, tighter and name or flag, "may only be loosened")
  end
  return nil
end

-- A lower bound that may only fall; `free` is the value that refuses nothing.
local function at_least(s, old, new, name, free)
  if new[name] == nil or new[name] == free then
    return nil
  elseif old[name] == nil then
    return reason(s, name, "may not be added")
  end
  return new[name] > old[name] and reason(s, name, "may only be lowered")
end

local function at_most(s, old, new, name)
  if new[name] == nil then
    return nil
  elseif old[name] == nil then
    return reason(s, name, "may not be added")
  end
  return new[name] < old[name] and reason(s, name, "may only be raised")
end

for _, name in ipairs{ "minLength", "minItems", "minProperties" } do
  rules[name] = function(s, old, new)
    return at_least(s, old, new, name, 0)
  end
end
for _, name in ipairs{ "maxLength", "maxItems", "maxProperties" } do
  rules[name] = at_most
end

local function lower_bound(s, old, new, name)
  if s.old.draft == 4 then
    return bound_with_flag(s, old, new, "minimum", "exclusiveMinimum", 1)
  end
  return at_least(s, old, new, name)
end
rules.minimum, rules.exclusiveMinimum = lower_bound, lower_bound

local function upper_bound(s, old, new, name)
  if s.old.draft == 4 then
    return bound_with_flag(s, old, new, "maximum", "exclusiveMaximum", -1)
  end
  return at_most(s, old, new, name)
end
rules.maximum, rules.exclusiveMaximum = upper_bound, upper_bound

-- A number as digits x 10^exponent, or nil where that takes more digits than it was written with for sure.
local function decimal(number)
  if math.type(number) == "integer" then
    return number, 0
  end
  local text = string.format("%.14e", number)
  local e = string.find(text, "e")
  if tonumber(text) ~= number then
    return nil
  end
  local digits = math.tointeger(tonumber(string.sub(text, 1, 1) .. string.sub(text, 3, e - 1)))
  local exponent = math.tointeger(tonumber(string.sub(text, e + 1))) - 14
  while digits % 10 == 0 do
    digits, exponent = digits // 10, exponent + 1
  end
  return digits, exponent
end

-- Is `whole` a multiple of `part`? False when in doubt.
local function is_multiple(whole, part)
  local a, a_exponent = decimal(whole)
  local b, b_exponent = decimal(part)
  if not a or not b then
    return false
  end
  -- b divides a x 10^n when it does so with the powers of ten that n adds; for n < 0 those move to b.
  local n = a_exponent - b_exponent
  while n > 0 and a <= math.maxinteger // 10 do
    a, n = a * 10, n - 1
  end
  while n < 0 and b <= math.maxinteger // 10 do
    b, n = b * 10, n + 1
  end
  return n == 0 and a % b == 0
end

function rules.multipleOf(s, old, new)
  if new.multipleOf == nil or old.multipleOf == new.multipleOf then
    return nil
  elseif old.multipleOf == nil then
    return reason(s, "multipleOf", "may not be added")
  end
  return not is_multiple(old.multipleOf, new.multipleOf) and reason(s, "multipleOf", "may only become a divisor")
end

function rules.uniqueItems(s, old, new)
  return new.uniqueItems and not old.uniqueItems and reason(s, "uniqueItems", "may not be added")
end

function rules.required(s, old, new)
  local before = {}
  for _, name in ipairs(old.required or {}) do
    before[name] = true
  end
  base.spend(s.meter, (#(old.required or {}) + #(new.required or {})) // 2)
  for _, name in ipairs(new.required or {}) do
    if not before[name] then
      return reason(s, "required", base.show(name) .. " may not be added")
    end
  end
  return nil
end

-- A property that the old schema did not name: what its patterns and `additionalProperties` let pass must still
-- pass. Where
-- they let anything pass, it may be added all the same.
local function property_added(s, old, name, schema)
  local patterns = old.patternProperties or {}
  for _, text in ipairs(base.keys(s.meter, patterns)) do
    base.spend(s.meter, 4)
    if pattern.may_match(text, name) then
      local why = below(s, "properties", name, patterns[text], schema)
      if why then
        return why
      end
    end
  end
  local before = old.additionalProperties
  if before == nil or document.is_open(s.old, (document.resolve(s.old, before))) then
    return nil
  end
  return below(s, "properties", name, before, schema)
end

function rules.properties(s, old, new)
  local before, after = old.properties or {}, new.properties or {}
  for _, name in ipairs(base.keys(s.meter, before)) do
    if after[name] == nil then
      return reason(s, "properties", base.show(name) .. " may not be removed")
    end
    local why = below(s, "properties", name, before[name], after[name])
    if why then
      return why
    end
  end
  for _, name in ipairs(base.keys(s.meter, after)) do
    local why = before[name] == nil and property_added(s, old, name, after[name])
    if why then
      return why
    end
  end
  return nil
end

-- A schema for all that is left: absent means anything.
local function rest_widens(s, old, new, name)
  if new[name] == nil then
    return nil
  elseif old[name] == nil and not document.is_open(s.new, (document.resolve(s.new, new[name]))) then
    return reason(s, name, "may not be added")
  end
  return old[name] ~= nil and below(s, name, nil, old[name], new[name])
end
rules.additionalProperties = rest_widens

-- Without the patterns their names fall to additionalProperties.
function rules.patternProperties(s, old, new)
  local before, after = old.patternProperties or {}, new.patternProperties or {}
  if #base.keys(s.meter, after) == 0 then
    local rest = new.additionalProperties
    local open = rest == nil or document.is_open(s.new, (document.resolve(s.new, rest)))
    return #base.keys(s.meter, before) > 0 and not open and
      reason(s, "patternProperties", "may only go where additionalProperties is open")
  elseif #base.keys(s.meter, before) == 0 then
    return reason(s, "patternProperties", "may not be added")
  end
  return kept(s, old, new, "patternProperties")
end

-- items, prefixItems and additionalItems. A tuple in `items` (before 2020-12) may stay or go, and what follows it
-- with it.
local function items(s, old, new)
  if base.is_list(old.items) or base.is_list(new.items) then
    return new.items ~= nil and (kept(s, old, new, "items") or kept(s, old, new, "additionalItems"))
  elseif s.keywords.prefixItems and (old.prefixItems ~= nil or new.prefixItems ~= nil) then
    if new.prefixItems == nil then
      return new.items ~= nil and reason(s, "prefixItems", "may only go together with items")
    end
    local why = kept(s, old, new, "prefixItems")
    if why then
      return why
    end
  end
  return rest_widens(s, old, new, "items")
end
rules.items, rules.prefixItems, rules.additionalItems = items, items, items

-- minContains and maxContains mean nothing without contains.
local function contained(s, old, new)
  if new.contains == nil then
    return nil
  end
  local why = kept(s, old, new, "contains")
  for _, name in ipairs{ "minContains", "maxContains" } do
    if not why and s.keywords[name] and old[name] ~= new[name] then
      why = reason(s, name, "may only stay as it is or go together with contains")
    end
  end
  return why
end
rules.contains, rules.minContains, rules.maxContains = contained, contained, contained

-- then and else mean nothing without if.
local function conditional(s, old, new)
  return new["if"] ~= nil and (kept(s, old, new, "if") or kept(s, old, new, "then") or kept(s, old, new, "else"))
end
rules["if"], rules["then"], rules["else"] = conditional, conditional, conditional

-- Is there one in the list that fits? The one at the same place is tried first.
local function one_fits(s, list, place, fits)
  s.quiet = s.quiet + 1
  local found = list[place] ~= nil and fits(list[place])
  for i, schema in ipairs(list) do
    if found then
      break
    end
    found = i ~= place and fits(schema)
  end
  s.quiet = s.quiet - 1
  return found
end

function rules.anyOf(s, old, new)
  if new.anyOf == nil then
    return nil
  elseif old.anyOf == nil then
    return reason(s, "anyOf", "may not be added")
  end
  for i, branch in ipairs(old.anyOf) do
    local function fits(candidate)
      return not covers(s, branch, candidate)
    end
    if not one_fits(s, new.anyOf, i, fits) then
      return reason(s, "anyOf", "what branch " .. i - 1 .. " accepted, no branch accepts as a whole")
    end
  end
  return nil
end

function rules.allOf(s, old, new)
  if new.allOf == nil then
    return nil
  elseif old.allOf == nil then
    return reason(s, "allOf", "may not be added")
  end
  for i, branch in ipairs(new.allOf) do
    local function fits(candidate)
      return not covers(s, candidate, branch)
    end
    if not one_fits(s, old.allOf, i, fits) then
      return reason(s, "allOf", "branch " .. i - 1 .. " demands what no branch did before")
    end
  end
  return nil
end

-- ---- comparing two schemas ----

local function compare(s, old, new)
  for _, name in ipairs(base.keys(s.meter, old)) do
    local rule = s.keywords[name] and rules[name]
    local why = rule and rule(s, old, new, name)
    if why then
      return why
    end
  end
  for _, name in ipairs(base.keys(s.meter, new)) do
    local rule = old[name] == nil and s.keywords[name] and rules[name]
    local why = rule and rule(s, old, new, name)
    if why then
      return why
    end
  end
  return nil
end

local ANYTHING = {} -- what `true` stands for

-- Does the new schema accept every value that the old one accepts? Only below the root may it become one that
-- accepts all.
function covers(s, old, new, is_root)
  base.spend(s.meter, 6)
  local reference
  old = document.resolve(s.old, old)
  new, reference = document.resolve(s.new, new)
  if old == false or not is_root and document.is_open(s.new, new) then
    return nil
  elseif new == false then
    return reason(s, reference and "$ref" or "false", "accepts nothing any more")
  end
  old, new = old == true and ANYTHING or old, new == true and ANYTHING or new
  if old["$ref"] ~= nil or new["$ref"] ~= nil then
    return same.differ(s, old, new) and
      reason(s, "$ref", "with keywords beside it, or by name, is only understood where nothing changes")
  end
  local path = s.path
  s.path = reference and { base = string.sub(reference, 2) } or path
  local why = same.remember(s, s.judged, old, new, compare)
  s.path = path
  return why
end

-- Compares two documents (schema_document). Returns the reason against the change, or nil and whether nothing but
-- annotations changed.
function change.judge(old, new, meter)
  local s = same.begin(old, new, meter)
  if old.draft ~= new.draft then
    return reason(s, "$schema", "may not become another draft")
  elseif not same.differ(s, old.root, new.root) then
    return nil, true
  end
  s.literal = false
  return covers(s, old.root, new.root, true) or nil, false
end

return change
