-- The verbs about members, servers and brokers alike. verbs.lua hands in how verbs are made.

local changes = require "veena.verbs_change"
local client = require "veena.client"
local fanout = require "veena.verbs_fanout"
local http = require "veena.http"
local output = require "veena.output"

local MEMBERS = "/v1/cluster/members"
local DRY_RUN = changes.DRY_RUN

local function path_of(id, action)
  return MEMBERS .. "/" .. http.escape(id) .. (action and "/" .. action or "")
end

local function row(m)
  return {
    m.id, m.kind, m.status, output.yes_no(m.placeable), output.yes_no(m.draining), m.owned_partitions,
    m.leader and "leader" or m.voter and "voter" or nil,
    m.heartbeat_age_seconds and output.age_s(m.heartbeat_age_seconds), m.addr,
  }
end
local TITLES = { "ID", "KIND", "STATUS", "PLACEABLE", "DRAINING", "OWNED", "RAFT", "HEARTBEAT", "ADDR" }

local function show_blocked(m)
  for _, reason in ipairs(m.decommission_blocked or {}) do
    print(("%s cannot leave yet: %s (%s)"):format(m.id, reason.message, reason.code))
  end
end

local function show_list(body)
  local rows = {}
  for i, m in ipairs(body.members) do
    rows[i] = row(m)
  end
  output.table(TITLES, rows)
  for _, m in ipairs(body.members) do
    show_blocked(m)
  end
end

local function show_one(m)
  local facts, cells = {}, row(m)
  for i, title in ipairs(TITLES) do
    facts[i] = { title:lower(), cells[i] }
  end
  facts[#facts + 1] = { "tags", fanout.show_labels(m.tags) }
  facts[#facts + 1] = { "labels", fanout.show_labels(m.labels) }
  facts[#facts + 1] = { "store", m.store_id }
  output.facts(facts)
  show_blocked(m)
end

local ask = changes.asker(changes.show_would)

return function(verb, kit)
  local function patch(c, call, body, done)
    local id = call.args[1]
    ask(c, call, "PATCH", path_of(id), body, nil, function()
      print(done:format(id))
    end)
  end

  verb{
    name = "members list",
    alias = "members",
    options = { { name = "tag", kind = "text", help = "only members with this tag, K=V" } },
    about = "servers and brokers: state, what they own",
    example = "veena members",
    run = function(c, call)
      local body, answer = c:call("GET", client.path(MEMBERS, { tag = call.options.tag }))
      kit.answer_with(call, body, answer, show_list)
    end,
  }

  verb{
    name = "members get",
    args = { "ID" },
    about = "one member",
    example = "veena members get n1",
    run = function(c, call)
      local body, answer = c:call("GET", path_of(call.args[1]))
      kit.answer_with(call, body, answer, show_one)
    end,
  }

  verb{
    name = "members label",
    args = { "ID", "K=V[,K=V...]" },
    about = "sets labels; K alone removes one",
    example = "veena members label b7 rack=r1,old",
    run = function(c, call)
      patch(c, call, { labels = fanout.read_labels(call.args[2]) }, "labelled %s")
    end,
  }

  verb{
    name = "members cordon",
    args = { "ID" },
    about = "gives it no more partitions; it keeps what it has",
    example = "veena members cordon b7",
    run = function(c, call)
      patch(c, call, { placeable = false }, "%s gets no more partitions; `veena members uncordon` takes it back")
    end,
  }

  verb{
    name = "members uncordon",
    args = { "ID" },
    about = "takes a cordon back",
    example = "veena members uncordon b7",
    run = function(c, call)
      patch(c, call, { placeable = true }, "%s may be given partitions")
    end,
  }

  for _, name in ipairs{ "members decommission", "decommission" } do
    verb{
      name = name,
      args = { "ID" },
      options = { { name = "cancel", kind = "flag", help = "take it back; what was moved stays moved" }, DRY_RUN },
      about = name == "decommission" and "the same as members decommission" or "empties a member, then removes it",
      example = ("veena %s b7"):format(name),
      run = function(c, call)
        local id = call.args[1]
        local path = path_of(id, "decommission")
        if call.options.cancel and call.options["dry-run"] then
          client.fail(2, "decommission: --cancel has no --dry-run: it destroys nothing")
        elseif call.options.cancel then
          ask(c, call, "DELETE", path, nil, nil, function()
            print(id .. " stays")
          end)
          return
        elseif not call.options["dry-run"] then
          kit.confirm(call, ("move everything off %q and remove it?"):format(id))
        end
        ask(c, call, "POST", path, nil, "decommissioning " .. id, function()
          print(("%s is draining; `veena members get %s` shows how far it is, --cancel takes it back"):format(id, id))
        end)
      end,
    }
  end

  verb{
    name = "members lost",
    args = { "ID" },
    options = {
      { name = "accept-data-loss", kind = "flag", help = "what it alone held is gone, and placed anew, empty" },
      { name = "reason", kind = "text", help = "for the log" }, DRY_RUN,
    },
    about = "gives up a dead member that will not come back",
    example = "veena members lost b7 --accept-data-loss --reason 'disk burnt'",
    run = function(c, call)
      local id = call.args[1]
      local body = { accept_data_loss = call.options["accept-data-loss"] or false, reason = call.options.reason }
      if body.accept_data_loss and not call.options["dry-run"] then
        kit.confirm(call, ("give up %q and every partition that it alone holds?"):format(id))
      end
      ask(c, call, "POST", path_of(id, "lost"), body, "giving up " .. id, function(lost)
        print(("gave up %s: %d partitions are placed anew, empty; %d copies dropped, %d moves ended"):format(id,
          lost.unplaced, lost.replicas_dropped, lost.moves_ended))
      end)
    end,
  }

  for _, name in ipairs{ "members forget", "forget" } do
    verb{
      name = name,
      args = { "ID" },
      options = { DRY_RUN },
      about = name == "forget" and "the same as members forget" or "takes out a server that never registered",
      example = ("veena %s n4"):format(name),
      run = function(c, call)
        local id = call.args[1]
        if not call.options["dry-run"] then
          kit.confirm(call, ("forget server %q?"):format(id))
        end
        ask(c, call, "POST", path_of(id, "forget"), nil, "forgetting " .. id, function(gone)
          print(("forgot %s, a %s"):format(gone.id, gone.voter and "voter" or "learner"))
        end)
      end,
    }
  end
end
