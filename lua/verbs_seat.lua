-- Verbs of the operator's seat: following the cluster live, its settings.

local client = require "veena.client"
local json = require "veena.json"
local output = require "veena.output"

local EXIT_FAILED, EXIT_USAGE = 1, 2
local RETRY_S = 10 -- how long a lost stream is looked for at other nodes

local seat = {}

-- ---- watch ----

local SHOWN = {
  topics = function(r)
    return ("%d partitions, %s"):format(r.partitions, r.retention_ms == 0 and "kept forever"
      or "kept " .. output.duration_ms(r.retention_ms))
  end,
  assignments = function(r)
    local owner = r.owner_id ~= "" and r.owner_id or "nobody"
    return r.target_id and ("%s, %s to %s"):format(r.state, owner, r.target_id) or ("%s, %s"):format(r.state, owner)
  end,
  members = function(r)
    return r.status .. (r.draining and ", draining" or "") .. (r.placeable and "" or ", takes no partitions")
  end,
  servers = function(r)
    return (r.voter and "voter" or "learner") .. " at " .. r.cluster_addr
  end,
  settings = function(r)
    return tostring(r.value)
  end,
}

-- One line for people: when, where in the log, what.
local function line_of(event)
  if event.op == "put" or event.op == "delete" then
    local show = SHOWN[event.domain]
    local ok, text = pcall(show or function() return "" end, event.record)
    return ("%8d  %-6s  %-11s  %s%s"):format(event.index, event.op, event.domain, output.clean(event.key),
      event.op == "put" and ok and text ~= "" and "  " .. output.clean(text) or "")
  elseif event.op == "synced" then
    return ("%8d  that is the state; what follows is news"):format(event.index)
  end
end

local function query_of(call)
  local domains = #call.args > 0 and table.concat(call.args, ",") or nil
  local o = call.options
  if o.initial and o.since then
    client.fail(EXIT_USAGE, "watch: --initial and --since exclude each other")
  end
  return { domains = domains, since = o.since, initial = o.initial and "true" or nil, prefix = o.prefix,
    member = o.member }
end

-- Follows on at the next node when this one goes away, behind the last index that was whole.
function seat.follow(c, query, on_event)
  local last, lost_at, ended
  while not ended do
    local rest, whole = "", true
    local function on_body(bytes)
      rest = rest .. bytes
      for line in rest:gmatch("([^\n]*)\n") do
        local event = json.decode(line)
        if type(event) == "table" then
          lost_at = nil
          if event.op == "error" then
            whole = event
          else
            if not event.more and event.op ~= "error" then
              last = event.index
            end
            if on_event(event, line) == false then
              ended = true
              return false
            end
          end
        end
      end
      rest = rest:match("[^\n]*$")
      return true
    end
    local wanted = last and setmetatable({ since = last, initial = false }, { __index = query }) or query
    local ask = { domains = wanted.domains, prefix = wanted.prefix, member = wanted.member,
      since = wanted.since, initial = wanted.initial or nil }
    local answer, kind, message = c:stream(client.path("/v1/watch", ask), on_body)
    if ended then
      return
    end
    if answer and answer.status ~= 200 then
      c:refuse(answer, answer.status == 503)
    elseif whole ~= true and (whole.code == "compacted" or whole.code == "forbidden") then
      client.fail(EXIT_FAILED, ("%s (%s)"):format(whole.error, whole.code))
    end
    lost_at = lost_at or os.time()
    if os.time() - lost_at > RETRY_S then
      client.fail(3, ("no node feeds this watch: %s"):format(message or kind or "every stream ended"))
    end
    c:next_node()
  end
end

seat.watch = {
  name = "watch",
  args = { "[DOMAIN...]" },
  options = {
    { name = "initial", kind = "flag", help = "the state first" },
    { name = "since", kind = "integer", help = "what came behind this index" },
    { name = "prefix", kind = "text", help = "only keys that begin so" },
    { name = "member", kind = "text", help = "only assignments that this member holds or gets" },
  },
  about = "what changes, as it happens, until Ctrl-C",
  example = "veena watch topics assignments --prefix orders",
  run = function(c, call)
    seat.follow(c, query_of(call), function(event, line)
      if call.global.json then
        print(line)
      else
        local text = line_of(event)
        if text then
          print(text)
        end
      end
      io.stdout:flush()
    end)
  end,
}

-- ---- settings ----

local ORDER = { "max_moves", "dead_after_s", "failover_after_s", "member_heartbeat_ms", "min_voters", "replica_lag" }

local function show_settings(call, body, answer)
  if call.global.json then
    io.write(answer.body)
    return
  end
  local facts = {}
  for i, name in ipairs(ORDER) do
    facts[i] = { name, body[name] }
  end
  output.facts(facts)
end

seat.settings_get = {
  name = "settings get",
  alias = "settings",
  about = "what the whole cluster is set to",
  example = "veena settings get",
  run = function(c, call)
    local body, answer = c:call("GET", "/v1/settings")
    show_settings(call, body, answer)
  end,
}

seat.settings_set = {
  name = "settings set",
  args = { "NAME=VALUE..." },
  about = "changes settings; an empty VALUE takes one back",
  example = "veena settings set max_moves=4 dead_after_s=",
  run = function(c, call)
    local patch = {}
    for _, word in ipairs(call.args) do
      local name, value = word:match("^([%w_-]+)=(.*)$")
      local number = value and math.tointeger(tonumber(value))
      if not name or (value ~= "" and not number) then
        client.fail(EXIT_USAGE, ("settings set: %q is no NAME=NUMBER"):format(word))
      end
      patch[(name:gsub("-", "_"))] = value == "" and json.null or number
    end
    local body, answer = c:call("PATCH", "/v1/settings", patch)
    show_settings(call, body, answer)
  end,
}

return seat
