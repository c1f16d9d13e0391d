-- One JSON Schema document: its draft, what its keywords hold, and where its references lead.
--
-- document.open(root, meter) reads a document and refuses it when a rule is broken. What it returns:
--
--   root, draft    the document; 4, 6, 7, 2019 or 2020
--   keywords       the keywords that the draft defines, by name (schema_keywords)
--   schemas        every schema of the document that is an object, in the order it was found
--   edges          of each of them: list of { keyword=, how=, key=, target= }, one for each schema in it or referred to
--   asserting      of each of them: how many of its keywords can refuse a value, $ref left out

local base = require "lib.schema_base"
local keywords = require "lib.schema_keywords"

local document = {}

local NESTING_MAX = 64

-- An $id below the root opens a resource of its own, in which "#" means something else. One that begins with "#" is but
-- a name for its place.
local function opens_resource(doc, schema)
  local id = base.is_object(schema) and schema[doc.id_name]
  return type(id) == "string" and schema ~= doc.root and id ~= "" and string.sub(id, 1, 1) ~= "#"
end

-- ---- references ----

-- %xx in a fragment.
local function decode_percent(text)
  local out, i = {}, 1
  while i <= #text do
    local c = string.sub(text, i, i)
    local digits = c == "%" and string.sub(text, i + 1, i + 2) or ""
    local byte = #digits == 2 and tonumber("0x" .. digits)
    out[#out + 1] = byte and string.char(byte) or c
    i = i + (byte and 3 or 1)
  end
  return table.concat(out)
end

-- ~1 and ~0 in a pointer.
local function decode_tilde(text)
  local out, i = {}, 1
  while i <= #text do
    local two = string.sub(text, i, i + 1)
    local c = two == "~1" and "/" or two == "~0" and "~"
    out[#out + 1] = c or string.sub(two, 1, 1)
    i = i + (c and 2 or 1)
  end
  return table.concat(out)
end

local function index_of(token)
  local n = math.tointeger(tonumber(token))
  return n and n >= 0 and tostring(n) == token and n + 1 or nil
end

-- Follows "/a/b" from the root. Returns what is there, and whether an $id on the way opened another resource.
local function follow_pointer(doc, text)
  text = decode_percent(text)
  local at, nested, from = doc.root, false, 2
  while from <= #text + 1 do
    base.spend(doc.meter, 2)
    if type(at) ~= "table" then
      return nil, false
    end
    local slash = string.find(text, "/", from) or #text + 1
    local token = decode_tilde(string.sub(text, from, slash - 1))
    if base.is_list(at) then
      token = index_of(token)
    end
    at = token and at[token]
    nested = nested or opens_resource(doc, at)
    from = slash + 1
  end
  return at, nested
end

-- What a reference leads to; nil: nothing. Anchors are all known once the document was walked.
function document.target(doc, reference)
  if doc.pointers[reference] ~= nil then
    return doc.pointers[reference]
  elseif reference == "#" then
    return doc.root
  elseif string.sub(reference, 2, 2) ~= "/" then
    return doc.anchors[string.sub(reference, 2)]
  else
    base.spend(doc.meter, #reference // 8)
    doc.pointers[reference], doc.nested[reference] = follow_pointer(doc, string.sub(reference, 2))
  end
  return doc.pointers[reference]
end

-- A reference by pointer, with nothing beside it that could refuse a value, stands for its target.
local function stands_for_another(doc, schema)
  local reference = type(schema) == "table" and schema["$ref"]
  return reference and doc.asserting[schema] == 0 and (reference == "#" or string.sub(reference, 2, 2) == "/")
end

-- Follows references of that kind. Returns where they end, and the last one followed. A loop of nothing but references
-- accepts nothing: false.
function document.resolve(doc, schema)
  if not stands_for_another(doc, schema) then
    return schema, nil
  end
  local last, seen = nil, {}
  while stands_for_another(doc, schema) do
    if seen[schema] then
      return false, last
    end
    seen[schema] = true
    base.spend(doc.meter, 1)
    last = schema["$ref"]
    schema = document.target(doc, last)
  end
  return schema, last
end

-- Does a schema, looked at where it stands, accept every value?
function document.is_open(doc, schema)
  return schema == true or type(schema) == "table" and schema["$ref"] == nil and doc.asserting[schema] == 0
end

-- ---- reading ----

local function note_anchor(doc, at, keyword, name, schema)
  if doc.anchors[name] ~= nil then
    base.refuse(at.path, keyword, "the same name stands twice")
  end
  doc.anchors[name] = schema
end

-- Names a schema goes by in references: "#name".
local function note_anchors(doc, at, schema)
  for _, keyword in ipairs{ "$anchor", "$dynamicAnchor" } do
    if doc.keywords[keyword] and schema[keyword] ~= nil then
      note_anchor(doc, at, keyword, schema[keyword], schema)
    end
  end
  local id = doc.draft <= 7 and schema[doc.id_name]
  if type(id) == "string" and #id > 1 and string.sub(id, 1, 1) == "#" and string.sub(id, 2, 2) ~= "/" then
    note_anchor(doc, at, doc.id_name, string.sub(id, 2), schema)
  end
end

local walk

local function walk_reference(doc, at, name, keyword, schema, edges)
  if at.nested then
    base.refuse(at.path, name, "a reference inside a schema with an $id of its own is not understood")
  end
  base.spend(doc.meter, 4)
  local reference = schema[name]
  local edge = { keyword = name, how = keyword.how }
  edges[#edges + 1] = edge
  doc.references[#doc.references + 1] = { edge = edge, text = reference, schema = schema }
end

-- One schema in a keyword; `token` is its name or its place there, nil for one alone.
local function walk_part(doc, at, name, keyword, part, token, edges)
  if name == "dependencies" and base.is_list(part) then
    if not keywords.are_names(part, doc) then
      base.refuse(at.path, name, "must hold schemas or lists of names")
    end
    return
  end
  if token then
    at.path[#at.path + 1] = token
  end
  if type(part) == "table" then
    edges[#edges + 1] = { keyword = name, how = keyword.how, key = token, target = part }
  end
  walk(doc, at, part)
  if token then
    at.path[#at.path] = nil
  end
end

local function walk_parts(doc, at, name, keyword, value, edges)
  local depth, outer = at.depth, at.keyword
  local form = keywords.form(keyword, value)
  at.path[#at.path + 1] = name
  at.keyword, at.depth = name, depth + (form == "one" and 1 or 2)
  if form == "map" then
    for _, key in ipairs(base.keys(doc.meter, value)) do
      walk_part(doc, at, name, keyword, value[key], key, edges)
    end
  elseif form == "list" then
    for i, part in ipairs(value) do
      walk_part(doc, at, name, keyword, part, i - 1, edges)
    end
  else
    walk_part(doc, at, name, keyword, value, nil, edges)
  end
  at.path[#at.path] = nil
  at.keyword, at.depth = outer, depth
end

-- A schema that is an object.
local function walk_object(doc, at, schema)
  local edges, asserting, known = {}, 0, doc.keywords
  doc.edges[schema] = edges
  doc.schemas[#doc.schemas + 1] = schema
  -- Up to draft 7 validators look at nothing beside a $ref; definitions may stand there all the same.
  local beside = schema["$ref"] ~= nil and doc.draft <= 7 and {} or edges
  local named = schema[doc.id_name] ~= nil
  local nested = at.nested
  at.nested = nested or named and opens_resource(doc, schema)
  for _, name in ipairs(base.keys(doc.meter, schema)) do
    local keyword = known[name]
    if keyword then
      local value, check = schema[name], keyword.check
      local fault = check and check(value, doc)
      if fault then
        base.refuse(at.path, name, fault)
      end
      if keyword.asserts and name ~= "$ref" then
        asserting = asserting + 1
      end
      if keyword.reference then
        walk_reference(doc, at, name, keyword, schema, edges)
      elseif keyword.form then
        walk_parts(doc, at, name, keyword, value, keyword.how == "store" and edges or beside)
      end
      named = named or keyword.names
    end
  end
  doc.asserting[schema] = asserting
  at.nested = nested
  if named then
    note_anchors(doc, at, schema)
  end
end

-- `at` is where the walk stands: the path, how many containers are open, the keyword that led here, and whether this is
-- inside a resource of its own.
function walk(doc, at, schema)
  base.spend(doc.meter, 5)
  if type(schema) == "boolean" then
    if doc.draft == 4 and at.keyword ~= "additionalProperties" and at.keyword ~= "additionalItems" then
      base.refuse(at.path, at.keyword, "must be an object: boolean schemas came with draft 6")
    end
  elseif not base.is_object(schema) then
    base.refuse(at.path, at.keyword, "must be a schema: an object or a boolean")
  elseif at.depth > NESTING_MAX then
    base.refuse(at.path, at.keyword, "nested deeper than " .. NESTING_MAX .. " levels")
  elseif not doc.edges[schema] then
    walk_object(doc, at, schema)
  end
end

-- Gives one reference its target, and walks what stands only behind references.
local function settle(doc, reference)
  local text, edge = reference.text, reference.edge
  local target = document.target(doc, text)
  if target == nil then
    base.refuse_schema(doc, reference.schema, edge.keyword, "leads to nothing")
  elseif type(target) ~= "table" or not doc.edges[target] then
    local path = { base = string.sub(text, 2) }
    walk(doc, { path = path, depth = 1, keyword = edge.keyword, nested = doc.nested[text] }, target)
  end
  edge.target = target
end

local function is_by_name(text)
  return text ~= "#" and string.sub(text, 2, 2) ~= "/"
end

-- Those by name come last: by then all names are known. The list may grow while references are settled.
local function settle_references(doc)
  local by_name, i = {}, 1
  while doc.references[i] do
    if is_by_name(doc.references[i].text) then
      by_name[#by_name + 1] = doc.references[i]
    else
      settle(doc, doc.references[i])
    end
    i = i + 1
  end
  for _, reference in ipairs(by_name) do
    settle(doc, reference)
  end
end

-- Reads a document. `accepted`: it is the current version, so its patterns are not judged again.
function document.open(root, meter, accepted)
  if root ~= true and not base.is_object(root) then
    base.refuse({}, "schema", "must be an object or true")
  end
  local doc = {
    root = root, draft = 2020, meter = meter, accepted = accepted, schemas = {}, edges = {}, asserting = {},
    references = {}, pointers = {}, nested = {}, anchors = {}, patterns = {},
  }
  if root ~= true and root["$schema"] ~= nil then
    doc.draft = keywords.draft(root["$schema"])
    if not doc.draft then
      base.refuse({}, "$schema", "must name draft 2020-12, 2019-09, 07, 06 or 04")
    end
  end
  doc.keywords = keywords.of(doc.draft)
  doc.id_name = doc.draft == 4 and "id" or "$id"
  walk(doc, { path = {}, depth = 1, keyword = "schema", nested = false }, root)
  settle_references(doc)
  return doc
end

return document
