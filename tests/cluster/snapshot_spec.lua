-- Snapshots in real processes: logs are cut behind them, who was away gets one while writes go on, starts use them.

local harness = require "cluster.harness"
local history = require "cluster.history"
local proc = harness.proc

local OFTEN = { "--snapshot-entries", "50", "--snapshot-interval-s", "1" }
local NEVER = { "--snapshot-entries", "1000000000" }

local function create(node, prefix, first, last)
	for i = first, last do node:post("/v1/topics", { name = prefix .. "-" .. i, partitions = 3 }, 201) end
end

local function take(node)
	return node:post("/v1/cluster/snapshot", nil, 200, { ["X-Veena-Client"] = "test" }).json
end

-- Paths of a node's snapshots, the newest first.
local function snapshots(node)
	local found = {}
	local pipe = assert(io.popen("ls '" .. node.data .. "/snapshots'"))
	for name in pipe:lines() do
		local index = assert(tonumber(name:match("^(%d+)%-%d+%.mdb$")), name)
		found[#found + 1] = { index = index, path = node.data .. "/snapshots/" .. name }
	end
	pipe:close()
	table.sort(found, function(a, b) return a.index > b.index end)
	return found
end

-- The next start must not believe fsm.mdb: so it is after a power cut.
local function distrust(node)
	assert(os.remove(node.data .. "/fsm.mark"))
end

local function metric(node, name)
	local value = node:get("/metrics", 200).body:match("\n" .. name .. " (%S+)")
	return assert(tonumber(value), name)
end

local function logged(node, text)
	return node:log():find(text, 1, true) ~= nil
end

local function size_of(path)
	local file = assert(io.open(path, "rb"))
	local size = file:seek("end")
	file:close()
	return size
end

describe("a follower that was away", function()
	-- Killed while the others cut their logs past it; it comes back, gets an image, and nothing acknowledged is missing.
	harness.case("gets an image while writes go on", { flags = OFTEN }, function(c)
		local loads = { history.start_load(c, "a"), history.start_load(c, "b") }
		local away = c:follower()
		for _ = 1, harness.scaled(2, 10) do
			local had = away:status().applied_index
			away:kill()
			harness.eventually(30000, "the leader's log begins behind what the other has", function()
				return c:leader():status().log_first > had + 100
			end)
			local before = proc.now_ms()
			away:start():wait_ready()
			assert.is_true(metric(away, "veena_metastore_images_installed_total") >= 1)
			harness.eventually(10000, "writes went on", function() return history.first_created(loads, before) end)
			assert.is_true(away:status().log_first > 1)
		end
		for _, load in ipairs(loads) do load.stop() end
		c:settle()
		history.check(c, loads)
		-- It is a whole member: alone with one other it is the majority.
		for _, node in ipairs(c.nodes) do
			if node ~= away and node:status().role ~= "leader" then
				node:kill()
				break
			end
		end
		c:leader():post("/v1/topics", { name = "last", partitions = 3 }, 201)
		harness.eventually(5000, "it is there", function() return away:get("/v1/topics/last").status == 200 end)
	end)

	-- F17: it takes longer to take the image in than the others take to make the next one (it runs for a moment at a
	-- time, which is good for a chunk or two). What comes behind the image is kept until it is in: three images at most.
	harness.case("F17: catches up when logs are cut faster than the image arrives", { flags = OFTEN }, function(c)
		local load = history.start_load(c, "a")
		local bulk = harness.scaled(3000, 10000)
		harness.eventually(60000, "the image is large", function() return c:leader():status().applied_index > bulk end)
		local away = c:follower()
		local had = away:status().applied_index
		away:kill()
		harness.eventually(30000, "the leader's log begins behind what the other has", function()
			return c:leader():status().log_first > had
		end)
		away:start()
		harness.eventually(10000, "an image is on its way", function() return logged(away, "raft.snapshot") end)
		local before = metric(c:leader(), "veena_metastore_snapshots_total")
		local deadline = proc.now_ms() + 60000
		while not logged(away, "snapshot.installed") do
			assert.is_true(proc.now_ms() < deadline, "the image does not arrive")
			away:pause()
			proc.sleep_ms(300)
			away:resume()
			proc.sleep_ms(2)
		end
		assert.is_true(metric(c:leader(), "veena_metastore_snapshots_total") >= before + 2)
		away:wait_ready(20000)
		load.stop()
		c:settle()
		history.check(c, { load })
		local _, installed = away:log():gsub("snapshot%.installed", "")
		assert.is_true(installed <= 3, installed .. " images")
	end)
end)

describe("a start", function()
	-- fsm.mdb is not to be believed: the newest snapshot and the log behind it give everything back.
	harness.case("rebuilds the state from a snapshot and the log", { alone = true, nodes = 1, flags = NEVER }, function(c)
		local node = c.nodes[1]
		create(node, "a", 1, 40)
		assert.is_true(take(node).index > 40)
		create(node, "b", 1, 40)
		local digest = c:settle()
		node:kill()
		distrust(node)
		node:start():wait_ready()
		assert.is_true(logged(node, "restored fsm.mdb from a snapshot"))
		harness.eventually(5000, "all of it", function() return node:status().digest.index >= digest.index end)
		assert.equal(80, #node:topic_names())
	end)

	-- F16: the newest snapshot is damaged: the older one and a longer piece of the log, never less than there was.
	harness.case("F16: passes over a damaged snapshot", { alone = true, nodes = 1, flags = NEVER }, function(c)
		local node = c.nodes[1]
		for round = 1, 3 do
			create(node, "r" .. round, 1, 20)
			take(node)
		end
		create(node, "last", 1, 5)
		assert.equal(2, #snapshots(node))
		local function damage(how)
			node:stop()
			distrust(node)
			local newest = snapshots(node)[1]
			how(newest.path)
			node:start():wait_ready()
			assert.is_true(logged(node, "snapshot.damaged"))
			assert.is_true(logged(node, newest.path))
			assert.equal(65, #node:topic_names())
			harness.eventually(10000, "a good one takes its place", function()
				return node:status().snapshot_index > newest.index or nil
			end)
			take(node)
		end
		damage(function(path) assert(os.execute("truncate -s 0 '" .. path .. "'")) end)
		damage(function(path) assert(os.execute("truncate -s " .. size_of(path) // 2 .. " '" .. path .. "'")) end)
		damage(function(path) assert(os.execute("truncate -s -1 '" .. path .. "'")) end)
		damage(function(path)
			local file = assert(io.open(path, "r+b"))
			file:seek("set", size_of(path) // 2)
			local byte = file:read(1)
			file:seek("set", size_of(path) // 2)
			assert(file:write(string.char(byte:byte() ~ 1)))
			file:close()
		end)
	end)

	-- Left-over files of work that was cut short go.
	harness.case("removes what was left over", { alone = true, nodes = 1, flags = NEVER }, function(c)
		local node = c.nodes[1]
		create(node, "a", 1, 5)
		node:kill()
		for _, name in ipairs { "fsm.snapshot-0123456789abcdef", "fsm.restore" } do
			assert(assert(io.open(node.data .. "/" .. name, "wb")):write("half")):close()
		end
		node:start():wait_ready()
		assert.equal(5, #node:topic_names())
		for _, name in ipairs { "fsm.snapshot-0123456789abcdef", "fsm.restore" } do
			assert.is_nil(io.open(node.data .. "/" .. name))
		end
	end)
end)
