-- The verbs about children and schemas.

local client = require "veena.client"
local http = require "veena.http"
local json = require "veena.json"
local output = require "veena.output"

local EXIT_FAILED, EXIT_USAGE = 1, 2

local fanout = {}

local function topic_path(name, ...)
  return table.concat({ "/v1/topics/" .. http.escape(name), ... }, "/")
end

-- Text of a document given as `@FILE`, `-` (standard input) or itself. Checked, and sent as it is written: numbers keep
-- their spelling.
function fanout.read_document(given)
  local text = given
  if given == "-" then
    text = io.read("a")
  elseif given:sub(1, 1) == "@" then
    local file, why = io.open(given:sub(2), "rb")
    if not file then
      client.fail(EXIT_USAGE, "schema: " .. why)
    end
    text = file:read("a")
    file:close()
  end
  local value, problem = json.decode(text or "")
  if value == nil then
    client.fail(EXIT_USAGE, "schema: " .. (problem or "it is empty"))
  end
  return text
end

-- The record as JSON, with the document in it.
function fanout.with_document(record, text)
  local head = next(record) and json.encode(record):sub(1, -2) .. "," or "{"
  return head .. '"schema":' .. text .. "}"
end

-- "env=prod,team" -> { env = "prod", team = null }: what has no `=` is removed. A JSON object says the same.
function fanout.read_labels(given)
  if given:sub(1, 1) == "{" then
    local value, problem = json.decode(given)
    if type(value) ~= "table" then
      client.fail(EXIT_USAGE, "labels: " .. (problem or "a JSON object is expected"))
    end
    return value
  end
  local labels = {}
  for part in given:gmatch("[^,]+") do
    local key, value = part:match("^([^=]+)=(.*)$")
    labels[key or part] = value or json.null
  end
  return labels
end

-- "a=1 b=2", in order of the keys.
function fanout.show_labels(labels)
  local parts = {}
  for key, value in pairs(labels or {}) do
    parts[#parts + 1] = ("%s=%s"):format(key, value)
  end
  table.sort(parts)
  return #parts > 0 and table.concat(parts, " ") or nil
end

-- ---- children ----

local function list_children(c, call, answer_with)
  local body, answer = c:call("GET", topic_path(call.args[1], "children"))
  answer_with(call, body, answer, function()
    local rows = {}
    for i, child in ipairs(body.children) do
      rows[i] = { child.name, child.delay_ms > 0 and output.duration_ms(child.delay_ms) or nil,
        child.lag_complete and child.lag_messages or nil, child.remote }
    end
    output.table({ "CHILD", "DELAY", "LAG", "REMOTE" }, rows)
  end)
end

local function attach(c, call, answer_with)
  local parent, child = call.args[1], call.args[2]
  local body, answer = c:call("POST", topic_path(parent, "children"),
    { child = child, delay_ms = call.options["delay-ms"], remote = call.options.remote,
      remote_topic = call.options["remote-topic"], from = call.options.from, lanes = call.options.lanes,
      dry_run = call.options["dry-run"] })
  answer_with(call, body, answer, function()
    print((body.dry_run and "would attach %s to %s" or "attached %s to %s"):format(child, parent))
    for _, warning in ipairs(body.warnings or {}) do
      print("warning: " .. warning)
    end
  end)
end

local function detach(c, call)
  local parent, child = call.args[1], call.args[2]
  c:call("DELETE", topic_path(parent, "children", http.escape(child)))
  if not call.global.json then
    print(("detached %s from %s"):format(child, parent))
  end
end

-- ---- schemas ----

local function list_schemas(c, call, answer_with)
  local body, answer = c:call("GET", topic_path(call.args[1], "schema"))
  answer_with(call, body, answer, function()
    local rows = {}
    for i, v in ipairs(body.versions) do
      rows[i] = { v.version, json.encode(v.schema) }
    end
    output.table({ "VERSION", "SCHEMA" }, rows)
  end)
end

local function get_schema(c, call)
  local topic, version = call.args[1], call.args[2]
  if not version then
    version = c:call("GET", topic_path(topic)).schema_version
    if version == 0 then
      client.fail(EXIT_FAILED, ("%s has no schema"):format(topic))
    end
  end
  local _, answer = c:call("GET", topic_path(topic, "schema", http.escape(tostring(version))))
  if call.global.json then
    io.write(answer.body)
  else
    -- Cut out, not decoded: what is printed is what is stored.
    print((answer.body:match('^{"topic":"[^"]*","version":%d+,"schema":(.*)}%s*$')))
  end
end

local function put_schema(c, call, answer_with)
  local change = { schema_base_version = call.options["schema-base-version"] }
  local given = call.args[2]
  local text = fanout.read_document(given == "-" and given or "@" .. given)
  local body, answer = c:call("PATCH", topic_path(call.args[1]), fanout.with_document(change, text))
  answer_with(call, body, answer, function()
    print(("put the schema of %s"):format(call.args[1]))
  end)
end

-- Adds the verbs to the list; `shared.answer_with` prints an answer as --json asks.
function fanout.add(verb, shared)
  local function add(name, args, about, example, run, options)
    verb{
      name = name, args = args, options = options, about = about, example = example,
      run = function(c, call)
        run(c, call, shared.answer_with)
      end,
    }
  end
  add("children list", { "PARENT" }, "topics that get what a topic gets", "veena children list orders", list_children)
  add("children attach", { "PARENT", "CHILD" }, "lets a topic get what another gets",
    "veena children attach orders audit --delay-ms 60000", attach,
    { { name = "delay-ms", kind = "integer", help = "how much later it gets each record" },
      { name = "remote", kind = "text", help = "the child is on this remote; CHILD is its name here" },
      { name = "remote-topic", kind = "text", help = "its topic there; the parent's name if left out" },
      { name = "from", kind = "text", help = "where it begins: attach, unconsumed or earliest" },
      { name = "lanes", kind = "integer", help = "streams per partition, 1 to 8" },
      { name = "dry-run", kind = "flag", help = "asks only whether it would be taken" } })
  add("children detach", { "PARENT", "CHILD" }, "parts a child from its parent; its data stays",
    "veena children detach orders audit", detach)
  add("schemas list", { "TOPIC" }, "all versions of a topic's schema", "veena schemas list orders", list_schemas)
  add("schemas get", { "TOPIC", "[VERSION]" }, "one version of a topic's schema, or the latest",
    "veena schemas get orders 2", get_schema)
  add("schemas put", { "TOPIC", "FILE" }, "makes FILE (- standard input) the next version",
    "veena schemas put orders orders.json", put_schema,
    { { name = "schema-base-version", kind = "integer", help = "the version that it was made from" } })
end

return fanout
