-- The cluster's configuration as text: what it is set to, as sorted JSON lines, and the difference applied again.
--
-- A dump is of one index. What is no configuration is not in it: owners of partitions, members, users' passwords.

local changes = require "veena.verbs_change"
local client = require "veena.client"
local http = require "veena.http"
local json = require "veena.json"
local seat = require "veena.verbs_seat"

local EXIT_FAILED, EXIT_USAGE = 1, 2

local dump = {}

-- Fields that a create takes, and of those the ones that a change takes.
local TOPIC = { "name", "partitions", "retention_ms", "visibility_timeout_ms", "max_in_flight_per_partition",
  "max_acked_ahead_per_partition", "parent", "fanout_delay_ms", "labels" }
local ALTERS = { partitions = true, retention_ms = true, max_in_flight_per_partition = true,
  max_acked_ahead_per_partition = true, labels = true }

-- JSON with its keys in order: equal values are equal bytes.
local function stable(value)
  if value == nil then
    return ""
  end
  if type(value) ~= "table" or next(value) == nil or value[1] ~= nil or value == json.null then
    return json.encode(value)
  end
  local keys, parts = {}, {}
  for key in pairs(value) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do
    parts[i] = json.encode(key) .. ":" .. stable(value[key])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function topic_of(record)
  local out = { kind = "topic" }
  for _, field in ipairs(TOPIC) do
    local value = record[field]
    if value ~= nil and value ~= "" and not (type(value) == "table" and next(value) == nil) then
      out[field] = value
    end
  end
  return out
end

local MAKE = {
  topics = topic_of,
  schemas = function(r) return { kind = "schema", topic = r.topic, version = r.version, schema = r.schema } end,
  settings = function(r) return { kind = "setting", name = r.name, value = r.value } end,
}

-- Everything at one index: a list of entries, and of topics also their incarnation, by name.
local function read_cluster(c)
  local entries, ids, children = {}, {}, {}
  seat.follow(c, { initial = "true", domains = "topics,schemas,settings" }, function(event)
    if event.op == "synced" then
      return false
    end
    local r = event.record
    if event.domain == "topics" then
      ids[r.name] = r.id
      children[r.name] = r.parent ~= nil and r.parent ~= ""
    end
    if event.domain ~= "schemas" or not children[r.topic] then -- a child's are its parent's
      entries[#entries + 1] = MAKE[event.domain](r)
    end
  end)
  return entries, ids
end

local RANK = { topic = 1, schema = 2, setting = 3 }

local function name_of(entry)
  return entry.kind == "schema" and ("%s/%d"):format(entry.topic, entry.version) or entry.name
end

local function sort(entries)
  table.sort(entries, function(a, b)
    if a.kind ~= b.kind then
      return RANK[a.kind] < RANK[b.kind]
    elseif a.kind == "schema" and a.topic == b.topic then
      return a.version < b.version
    end
    return name_of(a) < name_of(b)
  end)
  return entries
end

dump.dump = {
  name = "dump",
  about = "topics, schemas and settings as JSON lines",
  example = "veena dump > cluster.jsonl",
  run = function(c)
    for _, entry in ipairs(sort((read_cluster(c)))) do
      print(stable(entry))
    end
  end,
}

-- ---- load ----

local function read_file(path)
  local file = path == "-" and io.stdin or nil
  if not file then
    local why
    file, why = io.open(path, "r")
    if not file then
      client.fail(EXIT_FAILED, why)
    end
  end
  local entries, number = {}, 0
  for line in file:lines() do
    number = number + 1
    if line:find("%S") then
      local entry, problem = json.decode(line)
      if type(entry) ~= "table" or not RANK[entry.kind] or type(name_of(entry)) ~= "string" then
        client.fail(EXIT_USAGE, ("load: %s:%d: %s"):format(path, number, problem or "no line of a dump"))
      end
      entries[#entries + 1] = entry
    end
  end
  return sort(entries)
end

-- Labels that are there and not wanted are taken away by null.
local function label_change(have, want)
  local out = {}
  for key, value in pairs(want or {}) do
    out[key] = value
  end
  for key in pairs(have or {}) do
    if out[key] == nil then
      out[key] = json.null
    end
  end
  return out
end

local function topic_steps(have, want, id)
  local path = "/v1/topics/" .. http.escape(want.name)
  if not have then
    local body = topic_of(want)
    body.kind = nil
    return { { what = "create topic " .. want.name, method = "POST", path = "/v1/topics", body = body } }
  end
  local change, fixed = {}, nil
  for _, field in ipairs(TOPIC) do
    if stable(have[field]) ~= stable(want[field]) then
      if not ALTERS[field] then
        fixed = field
      elseif field == "labels" then
        change.labels = label_change(have.labels, want.labels)
      else
        change[field] = want[field]
      end
    end
  end
  if fixed then
    return { { what = ("topic %s: %s cannot be changed"):format(want.name, fixed), is_impossible = true } }
  end
  -- `id`: a topic made anew meanwhile is another one, and is left alone.
  return next(change) and { { what = ("alter topic %s: %s"):format(want.name, stable(change)), method = "PATCH",
    path = client.path(path, { id = id }), body = change } } or {}
end

local function steps_of(have, want, id)
  if want.kind == "topic" then
    return topic_steps(have, want, id)
  elseif have and stable(have) == stable(want) then
    return {}
  elseif want.kind == "setting" then
    return { { what = ("set %s to %s"):format(want.name, want.value), method = "PATCH", path = "/v1/settings",
      body = { [want.name] = want.value } } }
  elseif have then
    return { { what = ("schema %s differs and cannot be changed"):format(name_of(want)), is_impossible = true } }
  end
  return { { what = "put schema " .. name_of(want), method = "PUT", body = want.schema,
    path = ("/v1/topics/%s/schema/%d"):format(http.escape(want.topic), want.version) } }
end

local function plan(c, wanted)
  local entries, ids = read_cluster(c)
  local have, steps, children = {}, {}, {}
  for _, entry in ipairs(entries) do
    have[entry.kind .. " " .. name_of(entry)] = entry
  end
  for _, want in ipairs(wanted) do
    -- A parent is there before its children.
    local into = want.kind == "topic" and want.parent and children or steps
    if want.kind ~= "topic" and #children > 0 then
      table.move(children, 1, #children, #steps + 1, steps)
      children = {}
    end
    for _, step in ipairs(steps_of(have[want.kind .. " " .. name_of(want)], want, ids[want.name])) do
      into[#into + 1] = step
    end
  end
  return table.move(children, 1, #children, #steps + 1, steps)
end

dump.load = {
  name = "load",
  args = { "FILE" },
  options = { changes.DRY_RUN },
  about = "makes the cluster as a dump says; deletes nothing",
  example = "veena load cluster.jsonl --dry-run",
  run = function(c, call)
    local steps = plan(c, read_file(call.args[1]))
    local failed = 0
    for _, step in ipairs(steps) do
      if step.is_impossible then
        failed = failed + 1
        io.stderr:write(step.what, "\n")
      else
        if not call.options["dry-run"] then
          c:call(step.method, step.path, step.body)
        end
        print((call.options["dry-run"] and "would " or "") .. step.what)
      end
    end
    if #steps == 0 then
      print("nothing to do")
    end
    return failed > 0 and EXIT_FAILED or 0
  end,
}

return dump
