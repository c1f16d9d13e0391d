-- The data node's disk: ROOT/ID/live holds partitions, ROOT/ID/staging copies of moves that are not complete,
-- ROOT/ID/requests what other brokers ask. Requests are written to a name of their own and renamed, so that nobody
-- reads half of one.

local json = require "veena.json"
local term = require "veena.term"

local disk = {}

local function path(root, id, folder, name)
  return ("%s/%s/%s/%s"):format(root, id, folder, name)
end

local function read(name)
  local file = io.open(name, "rb")
  if not file then
    return nil
  end
  local bytes = file:read("a")
  file:close()
  return bytes
end

local function write(name, bytes)
  local file = assert(io.open(name .. ".new", "wb"))
  assert(file:write(bytes))
  assert(file:close())
  assert(os.rename(name .. ".new", name))
end

-- Unix seconds, with a fraction.
function disk.now()
  return term.now()
end

function disk.open(root, id)
  for _, folder in ipairs{ "live", "staging", "requests" } do
    assert(os.execute(("mkdir -p '%s/%s/%s'"):format(root, id, folder)))
  end
end

-- Another disk under the same id is another store: veena is told which this is.
function disk.store_id(root, id)
  local name = ("%s/%s/store_id"):format(root, id)
  local known = read(name)
  if not known then
    known = ("%x"):format(math.random(0)):gsub("%-", "")
    write(name, known)
  end
  return known
end

-- ---- partitions ----

function disk.size(root, id, key)
  local bytes = read(path(root, id, "live", key .. ".log"))
  return bytes and #bytes or 0
end

-- One more record: its number, who wrote it, when.
function disk.append(root, id, key)
  local name = path(root, id, "live", key .. ".log")
  local bytes = read(name) or ""
  local _, lines = bytes:gsub("\n", "\n")
  local file = assert(io.open(name, "ab"))
  assert(file:write(("%d %s %d\n"):format(lines + 1, id, math.floor(disk.now() * 1000))))
  assert(file:close())
end

-- { [key] = { topic=, topic_id=, partition= } } of what lies in live/.
function disk.list(root, id)
  local out = {}
  local names = assert(io.popen(("ls '%s/%s/live'"):format(root, id)))
  for name in names:lines() do
    local key = name:match("^(.+)%.log$")
    local topic, topic_id, partition = (key or ""):match("^(.+)%-(%x+)%-(%d+)$")
    if topic then
      out[key] = { topic = topic, topic_id = topic_id, partition = tonumber(partition) }
    end
  end
  names:close()
  return out
end

function disk.delete(root, id, key)
  os.remove(path(root, id, "live", key .. ".log"))
end

-- ---- moves ----

-- Copies what the source has into staging. Bytes copied and bytes there, or nil.
function disk.copy(root, from, to, key)
  local bytes = read(path(root, from, "live", key .. ".log"))
  if not bytes then
    return nil
  end
  write(path(root, to, "staging", key .. ".log"), bytes)
  return #bytes, #bytes
end

function disk.install(root, id, key)
  os.rename(path(root, id, "staging", key .. ".log"), path(root, id, "live", key .. ".log"))
end

function disk.drop_staging(root, id, key)
  os.remove(path(root, id, "staging", key .. ".log"))
end

-- ---- what one broker asks another ----

function disk.request_freeze(root, source, key, request)
  write(path(root, source, "requests", key .. ".freeze"), json.encode(request))
end

function disk.read_request(root, id, key)
  local bytes = read(path(root, id, "requests", key .. ".freeze"))
  return bytes and json.decode(bytes)
end

function disk.answer_request(root, id, key, request, size)
  write(path(root, id, "requests", key .. ".frozen"),
    json.encode{ move_id = request.move_id, by = request.by, until_s = request.until_s, size = size })
end

-- The source's answer to our request of this move, if it gave one.
function disk.read_answer(root, source, key, move_id, by)
  local bytes = read(path(root, source, "requests", key .. ".frozen"))
  local said = bytes and json.decode(bytes)
  return said and said.move_id == move_id and said.by == by and said or nil
end

return disk
