-- The verbs about the cluster itself: its servers, its leader, its log. verbs.lua hands in how verbs are made.

local changes = require "veena.verbs_change"
local client = require "veena.client"
local http = require "veena.http"
local json = require "veena.json"
local output = require "veena.output"

local SERVERS = "/v1/cluster/servers"
local DRY_RUN = changes.DRY_RUN

local function given(value)
  return value ~= json.null and value or nil
end

-- ---- servers ----

local function standing(s)
  return s.leader and "leader" or s.voter and "voter" or "learner"
end

local function note(s)
  if s.staged then
    return "becomes a voter, " .. (s.reason and "not yet: " .. s.reason or "any moment now")
  end
  return s.reason and "not promotable: " .. s.reason or "promotable"
end

-- How far the others are only the leader knows: it is asked at its own address, by https when that is how the list
-- came, for the password goes with the question. Where it does not answer, what this node knows is better than nothing.
local function ask_leader(c, call, rows, answer)
  local leader = answer.headers["x-veena-leader"]
  if leader == "" or leader == answer.headers["x-veena-node"] then
    return rows, answer
  end
  for _, s in ipairs(rows) do
    if s.id == leader and s.http_addr ~= "" then
      local url = c.urls[c.at]:match("^%a+://") .. s.http_addr
      local other = client.new(setmetatable({ url = url }, { __index = call.global }))
      local ok, better, its = pcall(other.call, other, "GET", SERVERS)
      if ok then
        return better, its
      end
    end
  end
  return rows, answer
end

local function show_servers(rows, answer)
  local cells = {}
  for i, s in ipairs(rows) do
    cells[i] = { s.id, standing(s), given(s.lag), s.contact_ms >= 0 and s.contact_ms .. " ms" or nil, s.cluster_addr,
      s.http_addr, s.build }
  end
  output.table({ "ID", "ROLE", "LAG", "CONTACT", "CLUSTER-ADDR", "HTTP-ADDR", "BUILD" }, cells)
  for _, s in ipairs(rows) do
    if not s.voter then
      print(("%s: %s"):format(s.id, note(s)))
    end
  end
  if answer.headers["x-veena-leader"] ~= answer.headers["x-veena-node"] then
    print("as " .. answer.headers["x-veena-node"] .. " knows it: how far the others are only a leader knows")
  end
end

local function show_would(body, what)
  for _, reason in ipairs(body.reasons) do
    print(("%s would be refused: %s (%s)"):format(what, reason.message, reason.code))
  end
  if body.would and #body.intents == 0 then
    print("nothing would change: all is as asked")
  elseif body.would then
    local heir = body.intents[1].to
    print(("%s%s would be carried out"):format(what, heir and " to " .. heir or ""))
  end
end

local asks = changes.asker(show_would)

local function show_added(s, answer)
  local done = answer.status == 201 and "added" or "set"
  if s.voter then
    print(("%s %s at %s as a voter"):format(done, s.id, s.cluster_addr))
  elseif s.staged then
    print(("%s %s at %s as a learner; it becomes a voter when it has caught up"):format(done, s.id, s.cluster_addr))
  else
    print(("%s %s at %s as a learner"):format(done, s.id, s.cluster_addr))
  end
end

-- ---- moves ----

local MOVES = "/v1/cluster/moves"

local function place_of(call, text)
  local topic, partition = changes.split_partition(text)
  if not partition then
    client.fail(2, ("%s: %q is no TOPIC/PARTITION"):format(call.name or "moves", text))
  end
  return topic, partition
end

local function how_far(m)
  local p = m.progress
  if not p then
    return nil
  elseif p.total_bytes > 0 then
    return ("%s %d%%"):format(p.phase, p.copied_bytes * 100 // p.total_bytes)
  end
  return p.phase
end

local function show_moves(body)
  local rows = {}
  for i, m in ipairs(body.moves) do
    rows[i] = { m.topic .. "/" .. m.partition, m.from, m.from_status, m.to, m.to_status, how_far(m), m.blocked }
  end
  output.table({ "PARTITION", "FROM", "", "TO", "", "PROGRESS", "BLOCKED" }, rows)
  for _, m in ipairs(body.moves) do
    if m.way_out then
      print(("%s/%d: %s"):format(m.topic, m.partition, m.way_out))
    end
  end
end

-- ---- the log ----

local LOG_SHOWN = 50 -- entries, the newest

-- What one command is about: `orders`, `orders/3`, `n1`, `orders -> orders-eu`.
local function subject(args)
  local topic = args.topic
  if type(topic) == "table" then
    topic = topic.name
  end
  if args.parent then
    return ("%s -> %s"):format(args.parent, args.child or args.stub or "?")
  elseif topic and args.partition then
    return ("%s/%d"):format(topic, args.partition)
  end
  return topic or args.id or args.username or args.name
end

local function describe(entry)
  if entry.kind == "noop" then
    return ("a leader begins term %d"):format(entry.term)
  elseif entry.kind == "config" then
    local names = {}
    for i, s in ipairs(entry.servers or {}) do
      names[i] = s.voter and s.id or s.id .. " (learner)"
    end
    return "servers: " .. table.concat(names, ", ")
  end
  local first = entry.commands and entry.commands[1]
  if not first then
    return "an entry of a newer release"
  end
  local about = first.args and subject(first.args)
  local more = #entry.commands > 1 and (" (+%d)"):format(#entry.commands - 1) or ""
  return (about and first.name .. ": " .. about or first.name) .. more
end

local function show_log(entries)
  local rows = {}
  for i, e in ipairs(entries) do
    rows[i] = { e.index, e.time_ms and os.date("!%m-%d %H:%M:%S", e.time_ms // 1000), e.node, e.actor, describe(e) }
  end
  output.table({ "INDEX", "TIME (UTC)", "NODE", "ACTOR", "WHAT" }, rows)
end

-- Servers say every few seconds that they are alive: one that says nothing new is left out.
local function new_sieve()
  local said = {}
  return function(entry)
    local c = #(entry.commands or {}) == 1 and entry.commands[1]
    if c and c.name == "member heartbeat" then
      return false
    elseif not c or c.name ~= "member join" or not c.args then
      return true
    end
    local m = c.args
    local text = table.concat({ m.addr, m.cluster_addr, m.build or "", m.entry_types or "" }, " ")
    local is_new = said[m.id] ~= text
    said[m.id] = text
    return is_new
  end
end

-- From `since` (nil: the oldest kept) until `limit` entries were found; without `since` all, and the newest of them.
local function read_log(c, query, limit, passes)
  local entries = {}
  local newest = not query.since
  query.limit = 1000
  repeat
    local page = c:call("GET", client.path("/v1/log", query))
    for _, entry in ipairs(page.entries) do
      if passes(entry) then
        entries[#entries + 1] = entry
      end
    end
    query.since = page.next_since
  until not query.since or (not newest and #entries >= limit)
  local first = newest and math.max(#entries - limit, 0) + 1 or 1
  return table.move(entries, first, math.min(first + limit - 1, #entries), 1, {})
end

local function run_log(c, call, topic)
  local limit, since = call.options.limit or LOG_SHOWN, call.options.since
  if limit < 1 or (since and since < 0) then
    client.fail(2, "log: --limit is 1 or more, --since 0 or more")
  end
  if call.global.json then -- one answer as it came: next_since says how to go on
    local _, answer = c:call("GET", client.path("/v1/log", { topic = topic, since = since, limit = limit }))
    io.write(answer.body)
    return
  end
  local passes = call.options.all and function() return true end or new_sieve()
  show_log(read_log(c, { topic = topic, since = since }, limit, passes))
end

local LOG_OPTIONS = {
  { name = "since", kind = "integer", help = "entries behind this index; without it the newest ones" },
  { name = "all", kind = "flag", help = "also servers that only say that they are alive" },
  { name = "limit", kind = "integer", help = ("how many entries, %d if not given"):format(LOG_SHOWN) },
}

-- ---- the verbs ----

return function(verb, kit)
  verb{
    name = "servers list",
    alias = "servers",
    about = "voters and learners, how far each is",
    example = "veena servers",
    run = function(c, call)
      local rows, answer = ask_leader(c, call, c:call("GET", SERVERS))
      kit.answer_with(call, rows, answer, function()
        show_servers(rows, answer)
      end)
    end,
  }

  verb{
    name = "servers add",
    args = { "ID", "[ADDR]" },
    options = {
      { name = "learner", kind = "flag", help = "without a vote; else it gets one when it has caught up" }, DRY_RUN,
    },
    about = "takes in, promotes or moves a server",
    example = "veena servers add n4 10.0.0.4:7943",
    run = function(c, call)
      local id, addr = call.args[1], call.args[2]
      local body = { id = id, cluster_addr = addr, voter = not call.options.learner }
      asks(c, call, "POST", SERVERS, body, "adding " .. id, show_added)
    end,
  }

  verb{
    name = "servers remove",
    args = { "ID" },
    options = { DRY_RUN },
    about = "takes a server out of the cluster",
    example = "veena servers remove n4",
    run = function(c, call)
      local id = call.args[1]
      if not call.options["dry-run"] then
        kit.confirm(call, ("remove server %q? it comes back only when it is added again"):format(id))
      end
      asks(c, call, "DELETE", SERVERS .. "/" .. http.escape(id), nil, "removing " .. id, function()
        print("removed " .. id)
      end)
    end,
  }

  for _, name in ipairs{ "servers transfer", "transfer" } do
    verb{
      name = name,
      args = { "[ID]" },
      options = { DRY_RUN },
      about = name == "transfer" and "the same as servers transfer" or "hands leadership over",
      example = ("veena %s n2"):format(name),
      run = function(c, call)
        asks(c, call, "POST", "/v1/cluster/leader", { to = call.args[1] }, "handing over", function(body)
          print(body.leader ~= "" and body.leader .. " leads now" or "handed over; who leads is not known yet")
        end)
      end,
    }
  end

  verb{
    name = "moves list",
    alias = "moves",
    about = "partitions on their way to another member",
    example = "veena moves",
    run = function(c, call)
      local body, answer = c:call("GET", MOVES .. "?detail=true")
      kit.answer_with(call, body, answer, function()
        show_moves(body)
      end)
    end,
  }

  verb{
    name = "moves set",
    args = { "PARTITION", "ID" },
    options = {
      { name = "instead-of", kind = "text", help = "the target it is on its way to now" },
      { name = "pin", kind = "flag", help = "and let the rebalance leave it there" },
      { name = "unpin", kind = "flag", help = "or let it be moved again" }, DRY_RUN,
    },
    about = "sends a partition to another member",
    example = "veena moves set orders/3 n2",
    run = function(c, call)
      local topic, partition = place_of(call, call.args[1])
      local target = call.args[2]
      local body = { target = target, expected_target = call.options["instead-of"] }
      if call.options.pin or call.options.unpin then
        body.pin = call.options.pin or false
      end
      local path = ("/v1/topics/%s/partitions/%s/move"):format(http.escape(topic), partition)
      asks(c, call, "POST", path, body, ("moving %s to %s"):format(call.args[1], target), function(a)
        local pin = a.pinned and ", pinned" or ""
        if a.target_id then
          print(("%s is on its way from %s to %s%s"):format(call.args[1], a.owner_id, a.target_id, pin))
        else
          print(("%s stays on %s%s"):format(call.args[1], a.owner_id, pin))
        end
      end)
    end,
  }

  verb{
    name = "moves abort",
    args = { "[PARTITION]" },
    options = { { name = "all", kind = "flag", help = "every move under way" }, DRY_RUN },
    about = "takes moves back: the source keeps the partition",
    example = "veena moves abort orders/3",
    run = function(c, call)
      if (call.args[1] == nil) == (call.options.all == nil) then
        client.fail(2, "moves abort: give TOPIC/PARTITION or --all")
      end
      if call.options.all then
        if not call.options["dry-run"] then
          kit.confirm(call, "abort every move under way?")
        end
        asks(c, call, "POST", MOVES .. "/abort", {}, "aborting all moves", function(body)
          print(("aborted %d moves%s"):format(#body.moves, body.more and "; there are more, ask again" or ""))
        end)
        return
      end
      local topic, partition = place_of(call, call.args[1])
      asks(c, call, "POST", ("%s/%s/%s/abort"):format(MOVES, http.escape(topic), partition), {}, "aborting", function(b)
        print(("aborted: %s/%d stays on %s"):format(b.move.topic, b.move.partition, b.move.from))
      end)
    end,
  }

  verb{
    name = "snapshot",
    about = "takes one of the node that is asked",
    example = "veena --url http://n2:7942 snapshot",
    run = function(c, call)
      local body, answer = c:call("POST", "/v1/cluster/snapshot", {})
      kit.answer_with(call, body, answer, function()
        print(("%s took a snapshot at index %d, %d KiB"):format(body.node, body.index, (body.bytes + 1023) // 1024))
      end)
    end,
  }

  verb{
    name = "barrier",
    about = "waits until a node has all that is committed",
    example = "veena barrier",
    run = function(c, call)
      local body, answer = c:call("POST", "/v1/barrier", {})
      kit.answer_with(call, body, answer, function()
        print(("%s has everything up to index %d"):format(answer.headers["x-veena-node"], body.index))
      end)
    end,
  }

  verb{
    name = "log",
    options = LOG_OPTIONS,
    about = "who changed what, and when",
    example = "veena log --limit 20",
    run = function(c, call)
      run_log(c, call, nil)
    end,
  }

  verb{
    name = "log topic",
    args = { "NAME" },
    options = LOG_OPTIONS,
    about = "the same, of one topic",
    example = "veena log topic orders",
    run = function(c, call)
      run_log(c, call, call.args[1])
    end,
  }
end
