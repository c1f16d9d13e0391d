-- The shipped schema policy: which documents a topic takes, and which change of one, keyword by keyword. Each line of
-- the tables is one document or one change; a refusal must name the keyword and, below the root, the place.

local veena = require "veena.spec"

local policy = veena.policy("policies/schema.lua")

local function judge(old, new)
  return policy.compatible(old and veena.json(old), veena.json(new), { name = "orders" })
end

local function takes(old, new)
  local ok, why = judge(old, new)
  assert(ok == true, ("%s -> %s: %s"):format(old, new, why))
  return why
end

-- Refused, and the reason holds every one of the words.
local function refuses(old, new, ...)
  local ok, why = judge(old, new)
  assert(ok == false, ("%s -> %s was taken"):format(old, new))
  assert(type(why) == "string" and #why > 0 and #why <= 256)
  for _, word in ipairs{ ... } do
    assert(why:find(word, 1, true), ("%s -> %s: no %s in: %s"):format(old, new, word, why))
  end
end

local function sub(schema) -- as the schema of a property
  return ('{"properties":{"a":%s}}'):format(schema)
end

describe("a first document", function()
  it("is an object or true", function()
    for _, text in ipairs{ "true", "{}", '{"type":"object"}' } do
      takes(nil, text)
    end
    for _, text in ipairs{ "false", "null", "1", '"x"', "[]" } do
      refuses(nil, text, "at the root")
    end
  end)

  it("names a draft from 04 to 2020-12", function()
    for _, name in ipairs{ "https://json-schema.org/draft/2020-12/schema",
      "https://json-schema.org/draft/2019-09/schema",
      "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#",
      "http://json-schema.org/draft-04/schema#" } do
      takes(nil, ('{"$schema":"%s"}'):format(name))
    end
    for _, name in ipairs{ "http://json-schema.org/draft-03/schema#", "https://example.com/own", "" } do
      refuses(nil, ('{"$schema":"%s"}'):format(name), "$schema")
    end
  end)

  it("has keywords that hold what they must", function()
    for _, case in ipairs{
      { '{"type":"number"}', '{"type":"float"}', "type" }, { '{"type":["string","null"]}', '{"type":[]}', "type" },
      { '{"minimum":-1.5}', '{"minimum":"1"}', "minimum" }, { '{"multipleOf":0.1}', '{"multipleOf":0}', "multipleOf" },
      { '{"maxLength":0}', '{"maxLength":-1}', "maxLength" }, { '{"minItems":1}', '{"minItems":1.5}', "minItems" },
      { '{"required":["a"]}', '{"required":["a","a"]}', "required" },
      { '{"required":[]}', '{"required":"a"}', "required" },
      { '{"enum":[null,1]}', '{"enum":1}', "enum" }, { '{"uniqueItems":true}', '{"uniqueItems":1}', "uniqueItems" },
      { '{"properties":{}}', '{"properties":[]}', "properties" }, { '{"items":true}', '{"items":1}', "items" },
      { '{"anyOf":[{}]}', '{"anyOf":[]}', "anyOf" }, { '{"pattern":"^a+$"}', '{"pattern":"("}', "pattern" },
      { '{"not":{}}', '{"not":[]}', "not" },
    } do
      takes(nil, case[1])
      refuses(nil, case[2], case[3])
      takes(nil, sub(case[1]))
      refuses(nil, sub(case[2]), "/properties/a", case[3])
    end
  end)

  it("refers to itself only", function()
    takes(nil, '{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}')
    takes(nil, '{"properties":{"next":{"$ref":"#"}}}')
    for _, ref in ipairs{ "http://example.com/x", "other.json", "#/$defs/none", "#/$defs/a/b" } do
      refuses(nil, ('{"$ref":"%s","$defs":{"a":{}}}'):format(ref), "$ref")
    end
  end)

  it("has patterns of which no validator gets tired", function()
    for _, pattern in ipairs{ "", "^[a-z0-9_]{1,8}$", "a|b|c", "(ab)*c", "[a-]", "[]-a]", "[%-.-/]",
      "\\\\d+\\\\.\\\\d+" } do
      takes(nil, ('{"pattern":"%s"}'):format(pattern))
    end
    for _, pattern in ipairs{ "(?=a)", "(a)\\\\1", "a{1,100000}", "[z-a]", "[a-c0-9x-b]", "*a",
      "((((a{9}){9}){9}){9})" } do
      refuses(nil, ('{"pattern":"%s"}'):format(pattern), "pattern")
    end
  end)

  it("has no shape that makes a validator's work explode", function()
    refuses(nil, '{"not":{"$ref":"#"}}', "not")
    refuses(nil, '{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}', "two ways")
    takes(nil, '{"properties":{"a":{"not":{"type":"null"}}}}')
  end)
end)

-- keyword -> changes that are taken, changes that are refused.
local CHANGES = {
  type = {
    taken = { { '{"type":"integer"}', '{"type":"number"}' }, { '{"type":"string"}', '{"type":["string","null"]}' },
      { '{"type":"string"}', "{}" }, { '{"type":["string","null"]}', '{"type":["null","string"]}' } },
    refused = { { '{"type":"number"}', '{"type":"integer"}' }, { '{"type":["string","null"]}', '{"type":"string"}' },
      { "{}", '{"type":"string"}' }, { '{"type":"string"}', '{"type":"number"}' } },
  },
  enum = {
    taken = { { '{"enum":[1]}', '{"enum":[1,2]}' }, { '{"enum":[1]}', "{}" }, { '{"const":1}', '{"enum":[2,1]}' },
      { '{"enum":[1,2]}', '{"enum":[2,1]}' } },
    refused = { { '{"enum":[1,2]}', '{"enum":[1]}' }, { "{}", '{"enum":[1]}' } },
  },
  const = {
    taken = { { '{"const":1}', "{}" }, { '{"const":{"a":1,"b":2}}', '{"const":{"b":2,"a":1}}' } },
    refused = { { '{"const":1}', '{"const":2}' }, { "{}", '{"const":1}' }, { '{"const":1}', '{"enum":[2]}' } },
  },
  minimum = {
    taken = { { '{"minimum":2}', '{"minimum":1}' }, { '{"minimum":2}', "{}" }, { '{"minimum":2}', '{"minimum":2.0}' } },
    refused = { { '{"minimum":1}', '{"minimum":2}' }, { "{}", '{"minimum":1}' } },
  },
  exclusiveMinimum = {
    taken = { { '{"exclusiveMinimum":2}', '{"exclusiveMinimum":1}' }, { '{"exclusiveMinimum":2}', "{}" } },
    refused = { { '{"exclusiveMinimum":1}', '{"exclusiveMinimum":2}' }, { "{}", '{"exclusiveMinimum":1}' } },
  },
  maximum = {
    taken = { { '{"maximum":1}', '{"maximum":2}' }, { '{"maximum":1}', "{}" } },
    refused = { { '{"maximum":2}', '{"maximum":1}' }, { "{}", '{"maximum":1}' } },
  },
  exclusiveMaximum = {
    taken = { { '{"exclusiveMaximum":1}', '{"exclusiveMaximum":2}' }, { '{"exclusiveMaximum":1}', "{}" } },
    refused = { { '{"exclusiveMaximum":2}', '{"exclusiveMaximum":1}' }, { "{}", '{"exclusiveMaximum":1}' } },
  },
  multipleOf = {
    taken = { { '{"multipleOf":4}', '{"multipleOf":2}' }, { '{"multipleOf":4}', "{}" },
      { '{"multipleOf":4}', '{"multipleOf":4}' } },
    refused = { { '{"multipleOf":2}', '{"multipleOf":4}' }, { "{}", '{"multipleOf":1}' },
      { '{"multipleOf":4}', '{"multipleOf":3}' } },
  },
  minLength = {
    taken = { { '{"minLength":2}', '{"minLength":1}' }, { '{"minLength":2}', "{}" }, { "{}", '{"minLength":0}' } },
    refused = { { '{"minLength":1}', '{"minLength":2}' }, { "{}", '{"minLength":1}' } },
  },
  minItems = {
    taken = { { '{"minItems":2}', '{"minItems":1}' }, { '{"minItems":2}', "{}" }, { "{}", '{"minItems":0}' } },
    refused = { { '{"minItems":1}', '{"minItems":2}' }, { "{}", '{"minItems":1}' } },
  },
  minProperties = {
    taken = { { '{"minProperties":2}', '{"minProperties":1}' }, { "{}", '{"minProperties":0}' } },
    refused = { { '{"minProperties":1}', '{"minProperties":2}' }, { "{}", '{"minProperties":1}' } },
  },
  maxLength = {
    taken = { { '{"maxLength":1}', '{"maxLength":2}' }, { '{"maxLength":1}', "{}" } },
    refused = { { '{"maxLength":2}', '{"maxLength":1}' }, { "{}", '{"maxLength":1000000}' } },
  },
  maxItems = {
    taken = { { '{"maxItems":1}', '{"maxItems":2}' }, { '{"maxItems":1}', "{}" } },
    refused = { { '{"maxItems":2}', '{"maxItems":1}' }, { "{}", '{"maxItems":9}' } },
  },
  maxProperties = {
    taken = { { '{"maxProperties":1}', '{"maxProperties":2}' }, { '{"maxProperties":1}', "{}" } },
    refused = { { '{"maxProperties":2}', '{"maxProperties":1}' }, { "{}", '{"maxProperties":9}' } },
  },
  pattern = {
    taken = { { '{"pattern":"a"}', '{"pattern":"a"}' }, { '{"pattern":"a"}', "{}" } },
    refused = { { '{"pattern":"a"}', '{"pattern":"a|b"}' }, { "{}", '{"pattern":""}' } },
  },
  format = {
    taken = { { '{"format":"date"}', '{"format":"date"}' }, { '{"format":"date"}', "{}" } },
    refused = { { '{"format":"date"}', '{"format":"time"}' }, { "{}", '{"format":"date"}' } },
  },
  uniqueItems = {
    taken = { { '{"uniqueItems":true}', '{"uniqueItems":false}' }, { '{"uniqueItems":true}', "{}" },
      { "{}", '{"uniqueItems":false}' } },
    refused = { { "{}", '{"uniqueItems":true}' }, { '{"uniqueItems":false}', '{"uniqueItems":true}' } },
  },
  required = {
    taken = { { '{"required":["a","b"]}', '{"required":["b"]}' }, { '{"required":["a"]}', "{}" },
      { "{}", '{"required":[]}' }, { '{"required":["a","b"]}', '{"required":["b","a"]}' } },
    refused = { { "{}", '{"required":["a"]}' }, { '{"required":["a"]}', '{"required":["a","b"]}' } },
  },
  properties = {
    taken = { { '{"properties":{"a":{}}}', '{"properties":{"a":{},"b":{"type":"string"}}}' },
      { "{}", '{"properties":{"a":{"type":"string"}}}' } },
    refused = { { '{"properties":{"a":{},"b":{}}}', '{"properties":{"a":{}}}' } },
  },
  additionalProperties = {
    taken = { { '{"additionalProperties":false}', '{"additionalProperties":true}' },
      { '{"additionalProperties":false}', "{}" },
      { '{"additionalProperties":false}', '{"additionalProperties":{"type":"null"}}' },
      { '{"additionalProperties":{"type":"integer"}}', '{"additionalProperties":{"type":"number"}}' } },
    refused = { { "{}", '{"additionalProperties":false}' },
      { '{"additionalProperties":true}', '{"additionalProperties":{"type":"null"}}' },
      { '{"additionalProperties":{"type":"null"}}', '{"additionalProperties":false}' } },
  },
  items = {
    taken = { { '{"items":{"type":"integer"}}', '{"items":{"type":"number"}}' },
      { '{"items":{"type":"integer"}}', "{}" } },
    refused = { { "{}", '{"items":{"type":"integer"}}' },
      { '{"items":{"type":"number"}}', '{"items":{"type":"integer"}}' } },
  },
  anyOf = {
    taken = { { '{"anyOf":[{"type":"string"}]}', '{"anyOf":[{"type":"null"},{"type":"string"}]}' },
      { '{"anyOf":[{"type":"integer"}]}', '{"anyOf":[{"type":"number"}]}' },
      { '{"anyOf":[{"type":"string"}]}', "{}" } },
    refused = { { '{"anyOf":[{"type":"string"},{"type":"null"}]}', '{"anyOf":[{"type":"string"}]}' },
      { "{}", '{"anyOf":[{"type":"string"}]}' } },
  },
  allOf = {
    taken = { { '{"allOf":[{"minimum":2},{"maximum":9}]}', '{"allOf":[{"minimum":1}]}' },
      { '{"allOf":[{"type":"string"}]}', "{}" } },
    refused = { { '{"allOf":[{"minimum":1}]}', '{"allOf":[{"minimum":1},{"maximum":9}]}' },
      { "{}", '{"allOf":[{"type":"string"}]}' } },
  },
  oneOf = {
    taken = { { '{"oneOf":[{"type":"string"}]}', '{"oneOf":[{"type":"string"}]}' },
      { '{"oneOf":[{"type":"string"}]}', "{}" } },
    refused = { { '{"oneOf":[{"type":"string"}]}', '{"oneOf":[{"type":"string"},{"type":"null"}]}' },
      { "{}", '{"oneOf":[{"type":"string"}]}' } },
  },
  ["not"] = {
    taken = { { '{"not":{"type":"string"}}', '{"not":{"type":"string"}}' }, { '{"not":{"type":"string"}}', "{}" } },
    refused = { { '{"not":{"type":"string"}}', '{"not":{"type":"null"}}' }, { "{}", '{"not":{"type":"null"}}' } },
  },
  contains = {
    taken = { { '{"contains":{"type":"string"}}', "{}" } },
    refused = { { "{}", '{"contains":{"type":"string"}}' },
      { '{"contains":{"type":"integer"}}', '{"contains":{"type":"number"}}' } },
  },
  propertyNames = {
    taken = { { '{"propertyNames":{"maxLength":3}}', "{}" } },
    refused = { { "{}", '{"propertyNames":{"maxLength":3}}' },
      { '{"propertyNames":{"maxLength":3}}', '{"propertyNames":{"maxLength":4}}' } },
  },
  dependentRequired = {
    taken = { { '{"dependentRequired":{"a":["b"]}}', "{}" } },
    refused = { { "{}", '{"dependentRequired":{"a":["b"]}}' } },
  },
}

describe("a change", function()
  local names = {}
  for name in pairs(CHANGES) do
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    it("of " .. name .. " only widens", function()
      for _, case in ipairs(CHANGES[name].taken) do
        takes(case[1], case[2])
        takes(sub(case[1]), sub(case[2]))
      end
      for _, case in ipairs(CHANGES[name].refused) do
        refuses(case[1], case[2], name)
        refuses(sub(case[1]), sub(case[2]), "/properties/a", name)
      end
    end)
  end

  it("of annotations alone needs no new version", function()
    for _, word in ipairs{ '"title":"x"', '"description":"x"', '"$comment":"x"', '"examples":[1]', '"default":1',
      '"deprecated":true', '"readOnly":true', '"writeOnly":true' } do
      assert.equal("unchanged", takes('{"type":"object"}', ('{"type":"object",%s}'):format(word)))
      assert.equal("unchanged", takes(sub('{"type":"object"}'), sub(('{"type":"object",%s}'):format(word))))
    end
    -- A property of that name is no annotation.
    assert.is_nil(takes('{"properties":{}}', '{"properties":{"title":{}}}'))
    assert.is_nil(takes('{"type":"integer"}', '{"type":"number","title":"x"}'))
  end)

  it("of the root keeps its properties, whatever it accepts then", function()
    refuses('{"properties":{"a":{}}}', "{}", "properties")
    refuses('{"properties":{"a":{}}}', "true", "properties")
  end)

  it("to what accepts everything is always taken below the root", function()
    takes(sub('{"type":"object","properties":{"b":{}},"required":["b"]}'), sub("true"))
    takes(sub('{"enum":[1]}'), sub("{}"))
  end)

  it("keeps the draft", function()
    local seven = '{"$schema":"http://json-schema.org/draft-07/schema#"}'
    local six = '{"$schema":"http://json-schema.org/draft-06/schema#"}'
    takes(seven, seven)
    refuses(seven, six, "$schema")
  end)

  it("is seen through references", function()
    local function with(schema, ref)
      return ('{"properties":{"a":%s},"$defs":{"d":%s}}'):format(ref and '{"$ref":"#/$defs/d"}' or schema, schema)
    end
    takes(with('{"type":"integer"}', true), with('{"type":"number"}', true))
    takes(with('{"type":"integer"}', false), with('{"type":"number"}', true))
    refuses(with('{"type":"number"}', true), with('{"type":"integer"}', true), "type")
    -- A tree that holds itself is compared once.
    takes('{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}}}',
      '{"properties":{"next":{"$ref":"#"},"v":{"type":"number"}}}')
    refuses('{"properties":{"next":{"$ref":"#"},"v":{"type":"number"}}}',
      '{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}}}', "type")
  end)

  it("compares numbers by their value", function()
    takes('{"minimum":1e1,"enum":[1.0]}', '{"minimum":10,"enum":[1]}')
    refuses('{"enum":[9007199254740993]}', '{"enum":[9007199254740992]}', "enum")
  end)
end)
