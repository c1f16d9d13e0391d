-- Against the real bbolt. Called by `make interop` with the programs in BOLT, MIRROR and VEENA: TREES random trees, and
-- TOPICS topics of PARTS partitions to be timed. Prints a line a proof, and "interop: N passed, M failed".

local env = os.getenv
local dir = assert(env "DIR")
local bolt, mirror, veena = assert(env "BOLT"), assert(env "MIRROR"), assert(env "VEENA")
local trees, topics, parts = assert(env "TREES"), assert(env "TOPICS"), assert(env "PARTS")

local passed, failed = 0, 0

local function run(...)
  return (os.execute(string.format(...)))
end

local function output(...)
  local pipe = assert(io.popen(string.format(...)))
  local text = pipe:read("a")
  pipe:close()
  return text
end

local function proves(ok, ...)
  local what = string.format(...)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
  end
  print((ok and "ok     " or "FAILED ") .. what)
end

-- Go -> veena -> Go: what src/bbolt reads of bbolt's file, and what bbolt reads of src/bbolt's, is what bbolt wrote.
local good = 0
for seed = 1, tonumber(trees) do
  local a, c = dir .. "/random.db", dir .. "/copy.db"
  if run("%s random %d %s", bolt, seed, a) and run("%s dump %s >%s.txt", bolt, a, a)
    and run("%s dump %s | cmp -s - %s.txt", mirror, a, a) and run("%s copy %s %s", mirror, a, c)
    and run("%s check %s", bolt, c) and run("%s dump %s | cmp -s - %s.txt", bolt, c, a) then
    good = good + 1
  else
    print("seed " .. seed)
  end
end
proves(good == tonumber(trees), "%d of %s random trees the same by Go -> veena -> Go, and accepted by its check",
  good, trees)

-- A database that etcd made.
local etcd = output("command -v etcd"):match("%S+")
if etcd then
  run([[
    rm -rf %s/etcd; %s --data-dir %s/etcd --listen-client-urls http://127.0.0.1:18379 \
      --advertise-client-urls http://127.0.0.1:18379 --listen-peer-urls http://127.0.0.1:18380 >%s/log 2>&1 & pid=$!
    for i in $(seq 100); do
      curl -s -m 2 http://127.0.0.1:18379/health >/dev/null && break; sleep 0.1
    done
    for i in $(seq 300); do
      key=$(echo key-$i | base64); value=$(seq $i | base64 -w0)
      curl -s -m 5 http://127.0.0.1:18379/v3/kv/put \
        -d "{\"key\":\"$key\",\"value\":\"$value\"}"
    done >/dev/null
    kill $pid; wait $pid 2>/dev/null]], dir, etcd, dir, dir)
  local db = dir .. "/etcd/member/snap/db"
  local same = run("%s dump %s >%s/etcd.txt", bolt, db, dir)
    and run("%s dump %s | cmp -s - %s/etcd.txt", mirror, db, dir)
  local lines = output("wc -l <%s/etcd.txt", dir):match("%d+")
  proves(same and tonumber(lines) > 300, "etcd's database reads as Go reads it, %s lines", lines)
else
  proves(false, "etcd is not installed")
end

-- A big file of Narad's shape: timed beside bbolt's own compaction, imported, exported, the same again.
local narad = dir .. "/narad.db"
run("rm -rf %s/data %s/back.db %s/back.db.snapshots", dir, dir, dir)
local made = run("%s narad %s %s %s", bolt, topics, parts, narad)
proves(made, "a file of %s topics with %s partitions each", topics, parts)
local compact = tonumber((output("%s compact %s %s/compact.db", bolt, narad, dir)))
local function timed(what)
  local text = output([[bash -c 'TIMEFORMAT=%%R; time %s' 2>&1]], what)
  return tonumber(text:match("([%d.]+)%s*$")), text
end
local import, said = timed(("%s import %s --data %s/data"):format(veena, narad, dir))
proves(import and run("test -d %s/data/snapshots", dir), "import took %s s, bbolt's compact of the same file %s s",
  import, compact)
if not run("test -d %s/data", dir) then
  print(said)
end
local export = timed(("%s export --data %s/data %s/back.db"):format(veena, dir, dir))
local accepted = run("test -s %s/back.db && %s check %s/back.db", dir, bolt, dir)
proves(accepted, "export took %s s, bbolt's check accepts it", export)
-- Members are dead and brokers now, and the index has a transaction of its own: all else is byte for byte the same.
run("%s dump %s | grep -v '^1 6e3[1-5] =\\|^1 74786964 =' >%s/was.txt", bolt, narad, dir)
run("%s dump %s/back.db | grep -v '^1 6e3[1-5] =\\|^1 74786964 =' >%s/is.txt", bolt, dir, dir)
local same_back = run("test -s %s/was.txt && cmp -s %s/was.txt %s/is.txt", dir, dir, dir)
proves(same_back, "what was imported is exported byte for byte")

print(("interop: %d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
