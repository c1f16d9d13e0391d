-- An example data node: a broker that keeps partitions as files and follows veena's move protocol step by step.
--
--   veena --url http://n1:7942,http://n2:7942 run datanode.lua --id b1 --root /srv/data [--beside] [--keep-s 600]
--
-- It is what authors of brokers read. Everything that matters for data stands here: when it may write (lease), when it
-- must stop (freeze), when a move is complete (flip), and when a file may go (confirm). Its one simplification is how
-- brokers talk to each other: all of them see one directory, ROOT/ID is a broker's disk, and a request to another
-- broker is a small file in that broker's folder. A real one would use its own protocol for "copy" and "freeze".
--
-- A partition's file is TOPIC-TOPICID-PARTITION.log. As owner it appends a line each tick, so that a test can see who
-- wrote what and when: "SEQUENCE ID MILLISECONDS".

local client = require "veena.client"
local disk = require "disk"
local http = require "veena.http"
local json = require "veena.json"

local FREEZE_S = 10         -- a freeze lapses by itself after this
local SETTLE_S = 3          -- what is left of a freeze must be longer than this to complete on it
local TICK_S = 0.2

local node = { held = {}, moving = {}, strays = {} }

local function say(...)
  io.stderr:write(("%s %s: "):format(os.date("!%H:%M:%S"), node.id), string.format(...), "\n")
end

local function read_options(args)
  local o = { ["keep-s"] = 600 }
  local i = 1
  while args[i] do
    local name = args[i]:match("^%-%-(.+)$")
    if name == "beside" then
      o.beside = true
    elseif name == "id" or name == "root" or name == "keep-s" then
      i = i + 1
      o[name] = args[i]
    else
      error("datanode: unknown option " .. args[i], 0)
    end
    i = i + 1
  end
  assert(o.id and o.root, "usage: datanode.lua --id ID --root DIR [--beside] [--keep-s SECONDS]")
  return o
end

-- ---- asking veena ----

-- The body of a 2xx answer, or nil, the code and the HTTP status. Neither a refusal nor silence stops a broker.
local function ask(method, path, body)
  local ok, answer, response = pcall(node.client.call, node.client, method, path, body)
  if ok then
    return answer, nil, response.status
  end
  local refused = type(answer) == "table" and answer.answer
  local said = refused and json.decode(refused.body)
  return nil, type(said) == "table" and said.code or "unreachable", refused and refused.status
end

local function partition_path(a, tail)
  return ("/v1/topics/%s/partitions/%d%s"):format(a.topic, a.partition, tail)
end

-- What the leader says of us and this partition, after a barrier; nil: it could not be confirmed, so nothing is known.
local function confirm(a)
  local said = ask("GET", client.path(("/v1/confirm/topics/%s/partitions/%d"):format(a.topic, a.partition),
    { id = a.topic_id, member = node.id }))
  return said and said.confirmed and said or nil
end

-- ---- being a member ----

-- The newest registration wins; an older process of this id hears `session_replaced` and must stop.
local function register()
  local said, code = ask("POST", "/v1/cluster/members",
    { id = node.id, addr = "127.0.0.1:1", store_id = disk.store_id(node.root, node.id) })
  if not said then
    say("cannot register: %s", code)
    return
  end
  node.session, node.heartbeat_s = said.session, said.heartbeat_ms / 1000
  node.lease_s = (said.dead_after_ms - said.heartbeat_ms) / 1000
  node.client.headers = { ("X-Veena-Session: %s:%s"):format(node.id, said.session) }
  node.heard = disk.now()
  say("registered")
end

local function heartbeat()
  if disk.now() < (node.next_heartbeat or 0) then
    return
  end
  node.next_heartbeat = disk.now() + node.heartbeat_s
  local sent = disk.now()
  local said, code = ask("POST", ("/v1/cluster/members/%s/heartbeat"):format(node.id), {})
  if said then
    node.heard = sent
  elseif code == "session_replaced" then
    error("another process took over as " .. node.id, 0)
  elseif code == "member_not_found" or code == "member_removed" then
    say("is no member any more: %s", code)
    node.session = nil
  end
end

-- Beside a veenad the server is the member and speaks for it: then only that it answers counts.
local function stay_member()
  if node.beside then
    if ask("GET", "/v1/status") then
      node.heard = disk.now()
    end
  elseif not node.session then
    register()
  else
    heartbeat()
  end
end

-- An owner whose heartbeats go unanswered may have been called dead: it stops before that can be.
local function has_lease()
  return node.heard and disk.now() - node.heard < node.lease_s
end

local function key_of(a)
  return ("%s-%s-%d"):format(a.topic, a.topic_id, a.partition)
end

-- ---- what it holds, told by watch ----

-- Everything that names us, by key. Only a hint: what destroys is confirmed one by one.
local rows = {}

local function take(event)
  local a = event.record
  if event.op == "put" and (a.owner_id == node.id or a.target_id == node.id) then
    rows[event.key] = a
  else
    rows[event.key] = nil
  end
end

-- Lines of one index count together, when the last of them (it has no `more`) is there; a stream that breaks between
-- them is resumed before the first.
local function take_line(line, batch)
  local event = json.decode(line)
  if type(event) ~= "table" then
    return
  elseif event.op == "error" then
    node.index = event.code ~= "compacted" and node.index or nil -- compacted: begin again with all there is
    return
  elseif event.op == "put" or event.op == "delete" then
    batch[#batch + 1] = event
  end
  if not event.more and (node.index or event.op == "synced") then
    for i = 1, #batch do
      take(batch[i])
    end
    node.index = event.index
    local changed = #batch > 0
    for i = #batch, 1, -1 do
      batch[i] = nil
    end
    return changed
  end
end

-- Follows the watch for `wait_s`, or until something changed. The first time it takes the whole state.
local function follow(wait_s)
  local batch, rest, url = {}, "", node.client.urls[node.client.at]
  if not node.index then
    rows = {}
  end
  local answer, kind = http.request{
    method = "GET",
    url = url .. client.path("/v1/watch",
      { domains = "assignments", member = node.id, since = node.index, initial = not node.index or nil }),
    headers = { "X-Veena-Client: datanode" }, timeout_ms = math.floor(wait_s * 1000),
    on_body = function(bytes)
      rest = rest .. bytes
      local changed = false
      for line in rest:gmatch("([^\n]*)\n") do
        changed = take_line(line, batch) or changed
      end
      rest = rest:match("[^\n]*$")
      return not changed
    end,
  }
  if kind == "unreachable" or (answer and answer.status ~= 200) then
    node.client:next_node()
  end
end

-- As source: another broker asked us to freeze. We stop, and say how far we got. Returns what was asked while it lasts.
local function answer_freeze(key)
  local asked = disk.read_request(node.root, node.id, key)
  if not asked or asked.until_s < disk.now() then
    return nil
  end
  disk.answer_request(node.root, node.id, key, asked, disk.size(node.root, node.id, key))
  return asked
end

-- A freeze lapsed. The flip it was for may have happened, or may still be on its way to the leader: we write again only
-- when the leader confirms that we own the partition and that this move is no more. If it still is, we end it
-- ourselves.
local function is_ours_again(a, held)
  local said = confirm(a)
  if not (said and said.as == "owner") then
    return false
  end
  if said.assignment.move_id ~= held.frozen_for then
    return true
  end
  ask("POST", client.path(("/v1/cluster/moves/%s/%d/abort"):format(a.topic, a.partition),
    { target = said.assignment.target_id }), {})
  return false -- the next tick asks again
end

local function may_write(a, key, held)
  local asked = answer_freeze(key)
  if asked then
    held.frozen_for = asked.move_id
    return false
  end
  if held.frozen_for and is_ours_again(a, held) then
    held.frozen_for = nil
  end
  return not held.frozen_for and has_lease()
end

local function serve(a)
  local key = key_of(a)
  local held = node.held[key] or { a = a }
  held.a = a
  node.held[key] = held
  if may_write(a, key, held) then
    disk.append(node.root, node.id, key)
  end
end

-- ---- taking over a partition: steps 1 to 5 of the protocol ----

local function report(a, phase, copied, total)
  ask("POST", partition_path(a, "/move/progress"),
    { topic_id = a.topic_id, move_id = a.move_id, phase = phase, copied_bytes = copied, total_bytes = total })
end

-- The flip. An answer that did not come may still have happened: the leader knows.
local function complete(a, key)
  local said, code = ask("POST", partition_path(a, "/move/complete"),
    { topic_id = a.topic_id, move_id = a.move_id, expected_owner = a.owner_id, target = node.id })
  if not said then
    say("%s: complete: %s", key, code)
    local now = confirm(a)
    if not (now and now.as == "owner") then
      return false
    end
  end
  say("%s: taken over from %s", key, a.owner_id)
  return true
end

local function move(a)
  local key = key_of(a)
  local m = node.moving[key]
  if not m or m.move_id ~= a.move_id then
    m = { move_id = a.move_id }
    node.moving[key] = m
  end
  m.a = a
  -- 1: copy while the source goes on writing, and say how far we are.
  local copied, total = disk.copy(node.root, a.owner_id, node.id, key)
  if not copied then
    return -- the source has no file yet, or does not answer
  end
  if not m.asked then
    report(a, "copying", copied, total)
  end
  -- 2: when nearly all is here, ask the source to freeze, and wait for its answer.
  local frozen = disk.read_answer(node.root, a.owner_id, key, a.move_id, node.id)
  if not frozen then
    if not m.asked or m.asked < disk.now() then
      m.asked = disk.now() + FREEZE_S
      disk.request_freeze(node.root, a.owner_id, key, { move_id = a.move_id, by = node.id, until_s = m.asked })
    end
    return
  end
  if frozen.until_s - disk.now() < SETTLE_S then
    m.asked = nil -- too late for this one; ask again once it lapsed
    return
  end
  -- 3: the rest, synced; then the flip.
  report(a, "frozen", frozen.size, frozen.size)
  copied = disk.copy(node.root, a.owner_id, node.id, key)
  if copied == frozen.size and complete(a, key) then
    disk.install(node.root, node.id, key)
    node.moving[key] = nil
  end
end

-- 5: a move that is no longer ours: the staging copy goes once the leader says that we hold nothing.
local function give_up_stale_moves(current)
  for key, m in pairs(node.moving) do
    if not current[key] then
      local said = confirm(m.a)
      if said and said.as == "owner" then
        disk.install(node.root, node.id, key)
        node.moving[key] = nil
      elseif said and not said.holds then
        disk.drop_staging(node.root, node.id, key)
        node.moving[key] = nil
      end
    end
  end
end

-- ---- letting go: step 4 ----

-- A file that nobody's list gives us is kept for a while, and then only a confirmed "you hold nothing" deletes it.
local function sweep_strays(current)
  for key, a in pairs(disk.list(node.root, node.id)) do
    if current[key] then
      node.strays[key] = nil
    else
      node.held[key] = nil
      node.strays[key] = node.strays[key] or disk.now()
      if disk.now() - node.strays[key] >= node.keep_s then
        local said = confirm(a)
        if said and not said.holds then
          say("%s: deleted, confirmed at index %d", key, said.index)
          disk.delete(node.root, node.id, key)
        end
        node.strays[key] = nil -- if kept, it waits as long again
      end
    end
  end
end

local function tick()
  stay_member()
  follow(TICK_S)
  if not node.index then
    return -- nothing is known yet: nothing is written, moved or given up
  end
  local held, moving = {}, {}
  for _, a in pairs(rows) do
    if a.owner_id == node.id then
      held[key_of(a)] = true
      -- A flip whose answer was lost leaves its copy in staging: it is ours now.
      disk.install(node.root, node.id, key_of(a))
      node.moving[key_of(a)] = nil
      serve(a)
    elseif a.target_id == node.id then
      moving[key_of(a)] = true
      move(a)
    end
  end
  give_up_stale_moves(moving)
  sweep_strays(held)
end

local function main(args)
  local o = read_options(args)
  node.id, node.root, node.beside, node.keep_s = o.id, o.root, o.beside, tonumber(o["keep-s"])
  node.client = client.current
  node.heartbeat_s, node.lease_s = 1, 5
  disk.open(node.root, node.id)
  while true do
    tick()
  end
end

main{ ... }
