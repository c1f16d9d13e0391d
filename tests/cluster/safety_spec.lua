-- A node that cannot be sure of itself: damage in its state, a disk that refuses or fills, a state that is behind its
-- log, restarts one after another. What it must not do matters more than what it can still do.

local harness = require "cluster.harness"
local history = require "cluster.history"
local http, proc = harness.http, harness.proc

local ONE = { alone = true, nodes = 1 }
local ONE_FAULTY = { alone = true, nodes = 1, faults = true }

local function create(node, prefix, first, last)
	for i = first, last do node:post("/v1/topics", { name = prefix .. "-" .. i, partitions = 3 }, 201) end
end

local function metric(node, name)
	local value = node:get("/metrics", 200).body:match("\n" .. name .. " (%S+)")
	return assert(tonumber(value), name)
end

-- Flips a bit of each copy of a topic's stored record in the live file; the map sees it at once.
local function flip_record(node, name)
	local path = node.data .. "/fsm.mdb"
	local file = assert(io.open(path, "r+b"))
	local bytes, from, found = file:read("a"), 1, 0
	while true do
		local at = bytes:find('"name":"' .. name .. '"', from, true)
		if not at then break end
		file:seek("set", at + 9)
		assert(file:write(string.char(bytes:byte(at + 10) ~ 1)))
		from, found = at + 1, found + 1
	end
	assert(file:close())
	assert(found > 0, "no record of " .. name)
end

describe("a state that is damaged", function()
	-- The scrub rests half a second between buckets: within 30 s the whole of a small state was looked at.
	harness.case("F16: a bit that flips while it runs stops the node, with the bucket named", ONE, function(c)
		local node = c.nodes[1]
		create(node, "t", 1, 20)
		flip_record(node, "t-7")
		local code = node:wait_exit(60000)
		assert.equal(4, code)
		assert.truthy(node:log():find("bucket topics is damaged", 1, true), node:log())
		node:start():wait_ready()
		for i = 1, 20 do assert.equal("t-" .. i, node:get("/v1/topics/t-" .. i, 200).json.name) end
	end)
end)

describe("a disk that refuses", function()
	-- What is committed waits and is then applied once: a second create would be told that it is there.
	harness.case("the state for a while: applied once it can", ONE_FAULTY, function(c)
		local node = c.nodes[1]
		create(node, "a", 1, 3)
		node:faults { sync = "f" }
		local conns = {}
		for i = 1, 5 do
			conns[i] = assert(http.connect(node.http_port, 40))
			assert(conns[i]:send(http.format("POST", "/v1/topics", { name = "w-" .. i, partitions = 3 })))
		end
		harness.eventually(5000, "it says that it tries again", function()
			return node:log():find("could not write raft entry; retrying", 1, true)
		end)
		node:get("/healthz", 200)
		harness.eventually(2000, "reads go on", function() return node:get("/v1/topics/a-1").status == 200 end)
		node:faults {}
		for _, conn in ipairs(conns) do
			assert.equal(201, assert(conn:receive("POST")).status)
			conn:close()
		end
		assert.truthy(node:log():find("raft entry written after retrying", 1, true))
		assert.equal(8, #node:topic_names())
	end)

	-- For 30 s: it stops, says why, answers 503 `stopped` to writes and barriers, and ends with 4; a restart applies it.
	if harness.scaled(false, true) then
		harness.case("the state for 30 s: the node stops", ONE_FAULTY, function(c)
			local node = c.nodes[1]
			create(node, "a", 1, 3)
			node:faults { sync = "f" }
			local conn = assert(http.connect(node.http_port, 60))
			assert(conn:send(http.format("POST", "/v1/topics", { name = "w", partitions = 3 })))
			harness.eventually(40000, "it stopped", function() return node:status().stopped end)
			assert.equal("stopped", node:post("/v1/topics", { name = "x", partitions = 3 }, 503).json.code)
			assert.equal("stopped", node:get("/v1/topics?consistency=strong", 503).json.code)
			assert.is_false((node:is_ready()))
			assert.equal(4, (node:wait_exit(15000)))
			conn:close()
			node:faults {}
			node:start():wait_ready()
			harness.eventually(5000, "it is applied now", function() return node:get("/v1/topics/w").status == 200 end)
			node:get("/v1/topics/x", 404)
		end)
	end
end)

-- A file system of 64 MiB in memory, or nothing where that may not be made.
local function small_disk()
	local dir = assert(proc.mkdtemp("/tmp/veena-disk-"))
	if os.execute("mount -t tmpfs -o size=64m none " .. dir .. " 2>/dev/null") then return dir end
	os.remove(dir)
end

local function free_bytes(dir)
	local pipe = assert(io.popen("df --output=avail -B1 '" .. dir .. "' | tail -1"))
	local bytes = assert(tonumber(pipe:read("a")))
	pipe:close()
	return bytes
end

describe("a disk that fills", function()
	local dir

	setup(function() dir = small_disk() end)
	teardown(function()
		if dir then assert(os.execute("umount " .. dir .. " && rmdir " .. dir)) end
	end)

	it("F23: refuses creates and not deletes, and recovers by itself", function()
		if not dir then return pending("a file system cannot be mounted here") end
		local c = harness.new { alone = true, nodes = 1, dir = dir }
		local ok, why = pcall(function()
			local node = c.nodes[1]
			node:start():wait_ready()
			local labels = {}
			for i = 1, 8 do labels["k" .. i] = ("v"):rep(60) end
			for i = 1, 400 do
				node:post("/v1/topics", { name = "t-" .. i, partitions = 3, labels = labels }, 201)
			end
			-- Nearly all of the rest is taken by somebody else.
			local filler, reserve = dir .. "/filler", 9 << 20
			assert(os.execute(("head -c %d /dev/zero >%s"):format(free_bytes(dir) - reserve + (200 << 10), filler)))
			local n = 400
			local refused = harness.eventually(20000, "creates are refused", function()
				n = n + 1
				local r = node:post("/v1/topics", { name = "t-" .. n, partitions = 3, labels = labels })
				return r.status ~= 201 and r
			end)
			assert.equal(503, refused.status)
			assert.equal("storage_full", refused.json.code)
			assert.equal("none", refused.json.outcome)
			assert.truthy(refused.json.error:find("disk of n1", 1, true), refused.body)
			assert.truthy(refused.json.error:find("%d bytes free"), refused.body)
			assert.is_nil(refused.body:find("MDB", 1, true))
			assert.equal(1, metric(node, "veena_disk_low"))
			node:get("/v1/topics/t-1", 200)
			node:get("/healthz", 200)
			-- Deletes pass, and what they free is used again: nobody else gave anything back.
			for i = 1, 350 do node:delete("/v1/topics/t-" .. i, 204) end
			harness.eventually(10000, "creates pass again", function()
				return node:post("/v1/topics", { name = "again", partitions = 3 }).status == 201
			end)
			assert.is_nil(node:ended())
			node:stop()
		end)
		c:close()
		if not ok then error(why, 0) end
	end)
end)

describe("a state that is behind its log", function()
	-- F30: the new leader's log is complete and its state is not. Until it applied its term's first entry it decides and
	-- confirms nothing; what it reads it says its true index of. F24 F25: health answers meanwhile.
	harness.case("F30: leads, and confirms nothing until it has applied", { faults = true }, function(c)
		local old, slow = c:leader(), c:follower()
		create(old, "a", 1, 5)
		harness.eventually(5000, "it has them", function() return slow:get("/v1/topics/a-5").status == 200 end)
		slow:faults { sync = "a" }
		create(old, "b", 1, harness.scaled(50, 5000))
		old:post("/v1/cluster/leader", { to = slow.id }, 200)
		harness.eventually(5000, "it leads", function() return slow:status().role == "leader" end)
		local had = slow:status().applied_index
		assert.is_false(slow:status().caught_up)
		local ready, why = slow:is_ready()
		assert(not ready or slow:status().applied_index == had, why)
		local r = slow:get("/v1/confirm/topics/b-1")
		assert.is_true(r.status == 503 and r.json.code == "not_confirmed", r.body)
		r = slow:get("/v1/topics?consistency=strong")
		assert.equal(503, r.status, r.body)
		r = slow:post("/v1/topics", { name = "early", partitions = 3 })
		assert.is_true(r.status == 503 and r.json.outcome == "none", r.body)
		r = slow:get("/v1/topics/a-1", 200)
		assert.equal(had, tonumber(r.headers["x-veena-index"]))
		local begun = proc.now_ms()
		slow:get("/healthz", 200)
		assert.is_true(proc.now_ms() - begun < 100)
		slow:faults {}
		harness.eventually(10000, "it has applied", function() return slow:status().caught_up end)
		assert.is_true(slow:get("/v1/confirm/topics/b-1", 200).json.exists)
		c:settle()
	end)

	-- F33: read round-robin with the highest index seen: never a lower one in a 200, `behind` from who lags.
	harness.case("F33: never answers below min_index", { faults = true }, function(c)
		local lags = c:follower()
		local seen, behind = 0, 0
		create(c:leader(), "t", 1, 1)
		for round = 1, harness.scaled(4, 40) do
			if round == 2 then lags:faults { sync = "a" } end
			if round == 4 then lags:faults {} end
			local r = c:leader():post("/v1/topics", { name = "r-" .. round, partitions = 3 }, 201)
			seen = math.max(seen, tonumber(r.headers["x-veena-index"]))
			local tag
			for _, node in ipairs(c.nodes) do
				r = node:get("/v1/topics/t-1?min_index=" .. seen)
				if r.status == 200 then
					assert.is_true(tonumber(r.headers["x-veena-index"]) >= seen)
					assert.is_true(tag == nil or tag == r.headers.etag)
					tag = r.headers.etag
				else
					assert.is_true(r.status == 503 and r.json.code == "behind" and node == lags, r.body)
					assert.truthy(r.headers["retry-after"])
					behind = behind + 1
				end
			end
		end
		assert.is_true(behind > 0)
		c:settle()
	end)
end)

describe("restarts one after another", function()
	-- F29: the next is restarted as soon as the last one is ready: there is a majority all the time.
	harness.case("F29: going on as soon as readyz says so loses nothing", {}, function(c)
		local load = history.start_load(c, "a")
		for _ = 1, harness.scaled(1, 10) do
			for _, node in ipairs(c.nodes) do
				node:stop()
				node:start()
				harness.eventually(2000, "healthz", function() return node:get("/healthz").status == 200 end)
				node:wait_ready()
			end
		end
		load.stop()
		c:settle()
		history.check(c, { load })
	end)
end)
