-- What the command can do: one entry a verb, from which running, usage and help are made.
--
--   name, args ("[X]" may be left out), options {name, kind = text|integer|boolean|flag|list, help}, about, example,
--   run(client, call)

local changes = require "veena.verbs_change"
local client = require "veena.client"
local fanout = require "veena.verbs_fanout"
local http = require "veena.http"
local json = require "veena.json"
local output = require "veena.output"
local seat = require "veena.verbs_seat"
local term = require "veena.term"
local version = require "veena.version"

local verbs = {}

local EXIT_FAILED, EXIT_USAGE = 1, 2

local list = {}

local function verb(definition)
  list[#list + 1] = definition
end

-- What destroys asks on a terminal and needs --yes elsewhere.
local function confirm(call, question)
  if call.global.yes then
    return
  end
  if not (term.is_terminal("stdin") and term.is_terminal("stderr")) then
    client.fail(EXIT_USAGE, "this needs --yes where there is no terminal to ask on")
  end
  io.stderr:write(question, " [y/N] ")
  local answer = io.read("l")
  if not answer or not answer:lower():match("^y") then
    client.fail(EXIT_FAILED, "nothing was done")
  end
end

local function topic_path(name, ...)
  return table.concat({ "/v1/topics/" .. http.escape(name), ... }, "/")
end

-- Prints the answer as it came for --json, else what `show` makes of the decoded body.
local function answer_with(call, body, answer, show)
  if call.global.json then
    io.write(answer.body)
  else
    show(body)
  end
end

-- Lists print every page: as one JSON document a page for --json.
local function list_with(call, records, raw, show)
  if call.global.json then
    io.write(table.concat(raw))
  else
    show(records)
  end
end

-- The options of `call` as a query or a body, `-` as `_`.
local function fields(call, names)
  local out = {}
  for _, name in ipairs(names) do
    out[(name:gsub("-", "_"))] = call.options[name]
  end
  return out
end

-- ---- status ----

local function status_facts(s)
  local stopped = s.stopped and s.stopped ~= "" and s.stopped or nil
  local members = s.members
  local facts = {
    { "node", s.id }, { "role", s.role }, { "cluster", s.cluster_id }, { "build", s.build },
    { "leader", s.leader ~= "" and ("%s (%s)"):format(s.leader, s.leader_addr) or "none known" }, { "term", s.term },
    { "index", ("%d applied, %d committed"):format(s.applied_index, s.commit_index) },
    { "contact", s.contact_ms >= 0 and s.contact_ms .. " ms ago" or "none" },
    { "ready", output.yes_no(s.ready) }, { "caught up", output.yes_no(s.caught_up) },
    { "members", ("%d alive, %d dead, %d draining"):format(members.alive, members.dead, members.draining) },
    { "voters", table.concat(s.voters or {}, " ") }, { "learners", table.concat(s.learners or {}, " ") },
    { "digest", s.digest and ("%s at %d"):format(s.digest.value, s.digest.index) }, { "up", output.age_s(s.uptime_s) },
  }
  if stopped then
    table.insert(facts, 3, { "STOPPED", stopped })
  end
  for _, alarm in ipairs(s.alarms or {}) do
    facts[#facts + 1] = { "ALARM", ("%s: %s"):format(alarm.code, alarm.message) }
  end
  return facts
end

-- Asks every server that the members' list names, each at its own address: by https when that is how the list came, for
-- the password goes with the question.
local function status_of_all(c, call)
  local members = c:call("GET", "/v1/cluster/members")
  local scheme = c.urls[c.at]:match("^%a+://")
  local rows, raw = {}, {}
  for _, member in ipairs(members.members) do
    if member.kind ~= "broker" then
      local own = client.new(setmetatable({ url = scheme .. member.addr }, { __index = call.global }))
      local ok, s, answer = pcall(own.call, own, "GET", "/v1/status")
      if ok then
        rows[#rows + 1] = { s.id, s.role, s.term, s.commit_index, s.applied_index, s.contact_ms,
          output.yes_no(s.ready), s.digest and s.digest.value }
        raw[#raw + 1] = answer.body
      else
        rows[#rows + 1] = { member.id, "unreachable" }
        raw[#raw + 1] = json.encode{ id = member.id, error = type(s) == "table" and s.message or tostring(s) } .. "\n"
      end
    end
  end
  return rows, raw
end

verb{
  name = "status",
  options = { { name = "all", kind = "flag", help = "every server, one row each" } },
  about = "what a node is and how far it is",
  example = "veena status --all",
  run = function(c, call)
    if call.options.all then
      local rows, raw = status_of_all(c, call)
      list_with(call, rows, raw, function()
        output.table({ "NODE", "ROLE", "TERM", "COMMITTED", "APPLIED", "CONTACT-MS", "READY", "DIGEST" }, rows)
      end)
      return
    end
    local body, answer = c:call("GET", "/v1/status")
    answer_with(call, body, answer, function(s)
      output.facts(status_facts(s))
    end)
  end,
}

-- ---- topics ----

local TOPIC_FIELDS = {
  { name = "partitions", kind = "integer", help = "how many; can grow, never shrink" },
  { name = "retention-ms", kind = "integer", help = "how long records are kept; 0 = for ever" },
  { name = "max-in-flight-per-partition", kind = "integer", help = "records given out and not yet acknowledged" },
  { name = "max-acked-ahead-per-partition", kind = "integer", help = "records acknowledged out of order" },
  { name = "replicas", kind = "integer", help = "copies of each partition; 1 = one owner, who is never replaced" },
  { name = "unclean", kind = "boolean", help = "true: a copy that is not in sync may lead when no other can" },
  { name = "replica-lag", kind = "integer", help = "entries a copy may lack and be in sync; 0 = the setting" },
}
local CREATE_FIELDS = { table.unpack(TOPIC_FIELDS) }
table.insert(CREATE_FIELDS, 3, {
  name = "visibility-timeout-ms", kind = "integer", help = "until a record is given out again",
})
table.insert(CREATE_FIELDS, { name = "parent", kind = "text", help = "the topic whose child it becomes" })
table.insert(CREATE_FIELDS, { name = "fanout-delay-ms", kind = "integer", help = "how much later it gets each record" })
local SCHEMA_OPTION = { name = "schema", kind = "text", help = "JSON Schema, @FILE, or - for standard input" }
local LABELS_OPTION = { name = "labels", kind = "text", help = "K=V,K=V, or a JSON object" }
local CREATE_OPTIONS = { SCHEMA_OPTION, LABELS_OPTION, table.unpack(CREATE_FIELDS) }
local ALTER_FIELDS = { table.unpack(TOPIC_FIELDS) }
table.insert(ALTER_FIELDS, {
  name = "schema-base-version", kind = "integer", help = "the version that it was made from",
})
local ALTER_OPTIONS = {
  SCHEMA_OPTION, { name = "labels", kind = "text", help = "K=V sets, K removes; or a JSON object" },
  table.unpack(ALTER_FIELDS),
}

-- The body of a create or a change.
local function topic_body(call, record)
  if call.options.labels then
    record.labels = fanout.read_labels(call.options.labels)
  end
  if call.options.schema then
    return fanout.with_document(record, fanout.read_document(call.options.schema))
  end
  return record
end

local function names_of(option_list)
  local names = {}
  for i, option in ipairs(option_list) do
    names[i] = option.name
  end
  return names
end

local function retention(ms)
  return ms == 0 and "forever" or output.duration_ms(ms)
end

local function role(topic)
  return topic.role ~= "standalone" and topic.role or nil
end

local function show_topic(t)
  output.facts{
    { "name", t.name }, { "id", t.id }, { "partitions", t.partitions }, { "retention", retention(t.retention_ms) },
    { "visibility", output.duration_ms(t.visibility_timeout_ms) }, { "in flight", t.max_in_flight_per_partition },
    { "acked ahead", t.max_acked_ahead_per_partition }, { "owner", t.owner }, { "role", role(t) },
    { "parent", t.parent }, { "children", t.children and table.concat(t.children, " ") },
    { "schema", t.schema_version and t.schema_version > 0 and "version " .. t.schema_version or nil },
    { "labels", fanout.show_labels(t.labels) },
    { "created", os.date("!%Y-%m-%d %H:%M:%S UTC", t.created_at) },
  }
  if t.partition_stats and #t.partition_stats > 0 then
    local rows = {}
    for i, p in ipairs(t.partition_stats) do
      rows[i] = { p.index, p.owner_node, p.owner_liveness or (p.owner_node and "alive") }
    end
    print()
    output.table({ "PARTITION", "OWNER", "LIVENESS" }, rows)
  end
end

verb{
  name = "topics list",
  alias = "topics",
  options = {
    { name = "prefix", kind = "text", help = "only names that begin so" },
    { name = "label", kind = "text", help = "only topics with this label, K=V" },
    { name = "role", kind = "text", help = "standalone, parent or child" },
    { name = "owner", kind = "text", help = "only topics of this user" },
  },
  about = "topics by name",
  example = "veena topics list --prefix orders-",
  run = function(c, call)
    local records, raw = c:pages("/v1/topics", fields(call, { "prefix", "label", "role", "owner" }), "topics")
    list_with(call, records, raw, function()
      local rows = {}
      for i, t in ipairs(records) do
        rows[i] = { t.name, t.partitions, retention(t.retention_ms), role(t), fanout.show_labels(t.labels) }
      end
      output.table({ "NAME", "PARTITIONS", "RETENTION", "ROLE", "LABELS" }, rows)
    end)
  end,
}

verb{
  name = "topics get",
  args = { "NAME" },
  about = "one topic with the owners of its partitions",
  example = "veena topics get orders",
  run = function(c, call)
    local body, answer = c:call("GET", topic_path(call.args[1]))
    answer_with(call, body, answer, show_topic)
  end,
}

verb{
  name = "topics create",
  args = { "NAME" },
  options = CREATE_OPTIONS,
  about = "makes a topic and places its partitions",
  example = "veena topics create orders --partitions 12",
  run = function(c, call)
    local record = fields(call, names_of(CREATE_FIELDS))
    record.name = call.args[1]
    local body, answer = c:call("POST", "/v1/topics", topic_body(call, record))
    answer_with(call, body, answer, function(t)
      print(("created %s with %d partitions"):format(t.name, t.partitions))
    end)
  end,
}

verb{
  name = "topics alter",
  args = { "NAME" },
  options = ALTER_OPTIONS,
  about = "changes what a topic keeps and how wide it is",
  example = "veena topics alter orders --retention-ms 0",
  run = function(c, call)
    local change = fields(call, names_of(ALTER_FIELDS))
    if not next(call.options) then
      client.fail(EXIT_USAGE, "topics alter: nothing to change; `veena help topics alter` lists the fields")
    end
    local body, answer = c:call("PATCH", topic_path(call.args[1]), topic_body(call, change))
    answer_with(call, body, answer, function(t)
      print(("altered %s"):format(t.name))
    end)
  end,
}

verb{
  name = "topics delete",
  args = { "NAME" },
  about = "removes a topic, its assignments and schemas",
  example = "veena topics delete orders",
  run = function(c, call)
    confirm(call, ("delete topic %q and all its data?"):format(call.args[1]))
    c:call("DELETE", topic_path(call.args[1]))
    if not call.global.json then
      print("deleted " .. call.args[1])
    end
  end,
}

-- ---- assignments ----

local ASSIGNMENT_FILTERS = { "owner", "target", "replica", "member", "state", "prefix" }

local FILTER_HELP = {
  owner = "owned by this member", target = "moving to this member", replica = "with a replica on this member",
  member = "with this member as owner, target or replica", prefix = "of topics whose names begin so",
  state = "placed, unplaced, moving, owner_dead or leaderless",
}

local function filter_options()
  local out = {}
  for i, name in ipairs(ASSIGNMENT_FILTERS) do
    out[i] = { name = name, kind = "text", help = FILTER_HELP[name] }
  end
  return out
end

-- Copies as one cell: the leader first, those in sync with a star.
local function show_copies(copies)
  local out = {}
  for i, copy in ipairs(copies or {}) do
    out[i] = copy.id .. (copy.in_sync and "*" or "")
  end
  return #out > 0 and table.concat(out, " ") or nil
end

local change_of = changes.asker(changes.show_would)

local function show_leader(a)
  output.facts{ { "partition", ("%s/%d"):format(a.topic, a.partition) }, { "state", a.state },
    { "leader", a.owner_id ~= "" and a.owner_id or "none" }, { "epoch", a.leader_epoch },
    { "copies", show_copies(a.replicas) } }
end

verb{
  name = "leader",
  args = { "TOPIC/P", "[ID]" },
  options = {
    { name = "unclean", kind = "flag", help = "also to a copy that is not in sync: what it lacks is given up" },
    changes.DRY_RUN,
  },
  about = "who leads a partition; with ID, hands it over",
  example = "veena leader orders/3 b7",
  run = function(c, call)
    local topic, partition = changes.split_partition(call.args[1])
    if not partition then
      client.fail(EXIT_USAGE, "leader: name a partition, as orders/3")
    end
    local path = topic_path(topic, "partitions", partition)
    local row, answer = c:call("GET", path)
    local id = call.args[2]
    if not id then
      answer_with(call, row, answer, show_leader)
      return
    end
    if call.options.unclean then
      confirm(call, ("Let %s lead %s, and give up what it lacks?"):format(id, call.args[1]))
    end
    change_of(c, call, "POST", path .. "/leader", {
      leader = id, topic_id = row.topic_id, expected_epoch = row.leader_epoch or 0, unclean = call.options.unclean,
    }, ("handing %s over to %s"):format(call.args[1], id), show_leader)
  end,
}

verb{
  name = "confirm",
  args = { "TOPIC[/P]" },
  options = {
    { name = "id", kind = "text", help = "the incarnation of the topic that is meant" },
    { name = "member", kind = "text", help = "does this member still hold the partition?" },
    { name = "attach-epoch", kind = "text", help = "the link of a child that is meant" },
  },
  about = "what the leader confirms to exist or to be held",
  example = "veena confirm orders/3 --member b7",
  run = function(c, call)
    local topic, partition = changes.split_partition(call.args[1])
    local target = "/v1/confirm/topics/" .. http.escape(topic) .. (partition and "/partitions/" .. partition or "")
    local body, answer = c:call("GET", client.path(target, fields(call, { "id", "member", "attach-epoch" })))
    answer_with(call, body, answer, function()
      local what = partition and ("partition %s of %s"):format(partition, topic) or topic
      print(("%s %s"):format(what, body.exists and "exists" or "does not exist"))
      if partition and call.options.member then
        local as = body.as ~= json.null and (" (%s)"):format(body.as) or ""
        print(("%s %s%s"):format(call.options.member, body.holds and "must keep its copy" or "may delete its copy", as))
      end
      print("confirmed by the leader at index " .. body.index)
    end)
  end,
}

verb{
  name = "assignments",
  args = { "[TOPIC]" },
  options = filter_options(),
  about = "which member owns which partition",
  example = "veena assignments --owner n1",
  run = function(c, call)
    local records, raw
    if call.args[1] then
      if next(call.options) then
        client.fail(EXIT_USAGE, "assignments: give a topic or filters, not both")
      end
      local body, answer = c:call("GET", topic_path(call.args[1], "assignments"))
      records, raw = body.assignments, { answer.body }
    else
      records, raw = c:pages("/v1/assignments", fields(call, ASSIGNMENT_FILTERS), "assignments")
    end
    list_with(call, records, raw, function()
      local rows = {}
      for i, a in ipairs(records) do
        rows[i] = { a.topic, a.partition, a.state, a.owner_id, a.target_id, a.version }
      end
      output.table({ "TOPIC", "PARTITION", "STATE", "OWNER", "TARGET", "VERSION" }, rows)
    end)
  end,
}

fanout.add(verb, { answer_with = answer_with })
require "veena.verbs_members"(verb, { answer_with = answer_with, confirm = confirm })
require "veena.verbs_remotes"(verb, { answer_with = answer_with, confirm = confirm })
require "veena.verbs_users"(verb, { answer_with = answer_with, confirm = confirm })
require "veena.verbs_cluster"(verb, { answer_with = answer_with, confirm = confirm })
require "veena.verbs_offline"(verb)

-- A script's own words are its own: they are not read as options. It finds the modules of this folder by require, those
-- that lie beside it too, and in `client.current` the client that the options before `run` describe.
verb{
  name = "run",
  args = { "FILE.lua", "[ARG...]" },
  about = "runs a script with the client library",
  example = "veena run datanode.lua --id b1 --root /srv/data",
  raw = function(global, words)
    if not words[1] then
      io.stderr:write("veena: run: give a file\n")
      return EXIT_USAGE
    end
    local folder = words[1]:match("^(.*/)") or "./"
    package.path = folder .. "?.lua;" .. package.path
    client.current = client.new(global)
    local chunk, problem = loadfile(words[1], "t")
    if not chunk then
      io.stderr:write("veena: run: ", problem, "\n")
      return EXIT_USAGE
    end
    local results = table.pack(pcall(chunk, table.unpack(words, 2)))
    if not results[1] then
      local e = results[2]
      io.stderr:write("veena: run: ", type(e) == "table" and e.message or tostring(e), "\n")
      return type(e) == "table" and e.exit or EXIT_FAILED
    end
    for i = 2, results.n do
      print(type(results[i]) == "table" and json.encode(results[i]) or tostring(results[i]))
    end
    return 0
  end,
}

local dump = require "veena.verbs_dump"
verb(dump.dump)
verb(dump.load)

verb(seat.watch)
verb(seat.settings_get)
verb(seat.settings_set)

verb{
  name = "repl",
  about = "the verbs as Lua functions, in a session",
  example = "veena repl",
  run = function() end, -- main.lua starts it: a session has no exit code of a verb
}

verb{
  name = "version",
  about = "the version of this command",
  example = "veena version",
  run = function()
    print("veena " .. version)
  end,
}

function verbs.find(name)
  for _, v in ipairs(list) do
    if v.name == name or v.alias == name then
      return v
    end
  end
end

function verbs.all()
  return list
end

-- It reads the verbs itself, so it comes when they are there.
verb{
  name = "completion",
  args = { "SHELL" },
  about = "completion for bash or zsh, to be sourced",
  example = "source <(veena completion bash)",
  run = function(c, call)
    return require("veena.completion").run(c, call)
  end,
}

return verbs
