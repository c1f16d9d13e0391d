-- A start that must not happen: one line that says what is wrong and what to do, the exit code of the contract, and
-- every file as it was.

local harness = require "cluster.harness"
local proc = harness.proc

-- A checksum of every file below `dir`, so that a refused start can be shown to have changed nothing.
local function fingerprint(dir)
	local pipe = assert(io.popen("cd '" .. dir .. "' && find . -type f | LC_ALL=C sort"
		.. " | xargs sha256sum"))
	local text = pipe:read("a")
	pipe:close()
	return text
end

-- Starts `node`, which must refuse: with `code`, one line in the log, holding each of `words`.
local function refuses(node, code, words, extra)
	os.remove(node.log_path)
	node:start(extra)
	local exit, signal = node:wait_exit(15000)
	assert(exit == code, string.format("exit code %s (signal %s) instead of %d: %s", exit, signal, code, node:log()))
	local errors = {}
	for line in node:log():gmatch("[^\n]+") do
		if line:find("error", 1, true) or not line:find("%f[%a]info%f[%A]") and not line:find("%f[%a]warn%f[%A]") then
			errors[#errors + 1] = line
		end
	end
	assert(#errors == 1, "not one line but " .. #errors .. ": " .. node:log())
	-- A start refused to protect data says what to do about it.
	assert(code ~= 3 or errors[1]:find("; %l[%l ]+") or errors[1]:find("remedy="), "no remedy in: " .. errors[1])
	for _, word in ipairs(words) do
		assert(errors[1]:find(word, 1, true), "'" .. word .. "' is not in: " .. errors[1])
	end
end

-- A file of the node's directory, changed by fn(bytes) -> bytes.
local function damage(path, fn)
	local file = assert(io.open(path, "rb"))
	local bytes = file:read("a")
	file:close()
	file = assert(io.open(path, "wb"))
	file:write(fn(bytes))
	file:close()
end

local function flip(at)
	return function(bytes) return bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 0x10) .. bytes:sub(at + 1) end
end

local function blot(at, len)
	return function(bytes) return bytes:sub(1, at - 1) .. ("\255"):rep(len) .. bytes:sub(at + len) end
end

local function files(dir, pattern)
	local found = {}
	local pipe = assert(io.popen("find '" .. dir .. "' -type f | LC_ALL=C sort"))
	for path in pipe:lines() do
		if path:find(pattern) then found[#found + 1] = path end
	end
	pipe:close()
	return found
end

local ONE = { nodes = 1, alone = true }
local THREE_STOPPED = { nodes = 3, start = false }
local ONE_STOPPED = { nodes = 1, alone = true, start = false }

describe("flags", function()
	-- Exit 2, with the name, the value and what is allowed.
	local cases = {
		{ "an unknown flag", { "--nosuch", "1" }, { "--nosuch" } },
		{ "a flag without its value", { "--heartbeat-ms" }, { "heartbeat-ms" } },
		{ "a number that is none", { "--heartbeat-ms", "soon" }, { "heartbeat-ms", "soon" } },
		{ "a number out of range", { "--max-moves", "-3" }, { "max-moves", "-3" } },
		{ "a word that is not allowed", { "--sync", "never" }, { "sync", "never", "log", "fsm" } },
		{ "a log level that is none", { "--log-level", "loud" }, { "log-level", "loud", "debug" } },
		{ "an address without a port", { "--http", "127.0.0.1" }, { "http", "127.0.0.1" } },
		{ "a port out of range", { "--http", "127.0.0.1:70000" }, { "http", "70000" } },
		{ "an open address without auth", { "--http", "0.0.0.0:7942" }, { "auth", "--allow-insecure" } },
		{ "a password file that is not there", { "--auth", "on", "--admin-password-file", "/nonexistent" },
			{ "admin-password-file", "/nonexistent" } },
		{ "an open cluster address with auth and no secret", { "--auth", "on", "--cluster", "0.0.0.0:7943" },
			{ "cluster-secret-file" } },
		{ "a configuration file that is not there", { "--config", "/nonexistent.lua" }, { "/nonexistent.lua" } },
		{ "a word that is no flag", { "start" }, { "start" } },
	}
	for _, case in ipairs(cases) do
		harness.case("refuses " .. case[1], ONE_STOPPED, function(c)
			refuses(c.nodes[1], 2, case[3], case[2])
			assert.same({}, files(c.dir, "/n1/"))
		end)
	end

	harness.case("refuses a peer list without its own id", THREE_STOPPED, function(c)
		c.peers = c.peers:gsub("n1@", "n9@")
		refuses(c.nodes[1], 2, { "n1", "peers" })
	end)

	harness.case("refuses a peer list that names an id twice", THREE_STOPPED, function(c)
		c.peers = c.peers:gsub("n3@", "n2@")
		refuses(c.nodes[1], 2, { "n2", "peers" })
	end)

	harness.case("refuses a peer list that names an address twice", THREE_STOPPED, function(c)
		c.peers = c.peers:gsub("n3@[^,]+", "n3@127.0.0.1:" .. c.nodes[2].cluster_port)
		refuses(c.nodes[1], 2, { tostring(c.nodes[2].cluster_port), "peers" })
	end)
end)

describe("a start that would do harm", function()
	-- Two processes on one directory: the second names the first and touches nothing.
	harness.case("F28: refuses a data directory that another process holds", ONE, function(c)
		local node = c.nodes[1]
		local holder = node.pid
		local ports = proc.free_ports(2)
		local second = setmetatable({ id = node.id, cluster = c, data = node.data, log_path = c.dir .. "/second.log",
			http_port = ports[1], cluster_port = ports[2] }, getmetatable(node))
		refuses(second, 3, { node.data, tostring(holder) })
		node:post("/v1/topics", { name = "still-here", partitions = 3 }, 201)
	end)

	harness.case("F28: refuses another id on a data directory", ONE, function(c)
		local node = c.nodes[1]
		node:stop()
		local before = fingerprint(node.data)
		node.id = "other"
		refuses(node, 3, { "n1", "other" })
		assert.equal(before, fingerprint(node.data))
	end)

	harness.case("refuses a directory written by a newer release", ONE, function(c)
		local node = c.nodes[1]
		node:stop()
		damage(node.data .. "/node", function(bytes)
			local changed, n = bytes:gsub("^(%S+ )%d+", "%1999", 1)
			assert(n == 1, "the node file names no format: " .. bytes)
			return changed
		end)
		local before = fingerprint(node.data)
		refuses(node, 3, { node.data, "999" })
		assert.equal(before, fingerprint(node.data))
	end)

	-- Damage before the tail: a valid record behind it declares it durable, so cutting it off would lose a write.
	harness.case("refuses a log that is damaged before its end", ONE, function(c)
		local node = c.nodes[1]
		for i = 1, 50 do node:post("/v1/topics", { name = "kept-" .. i, partitions = 3 }, 201) end
		node:kill()
		local segment
		for _, path in ipairs(files(node.data .. "/wal", ".")) do
			local file = assert(io.open(path, "rb"))
			local bytes = file:read("a")
			file:close()
			local at = bytes:find("kept-10", 1, true)
			if at then segment = { path = path, at = at, bytes = bytes } end
		end
		assert(segment, "no file of the log holds the topic's name")
		damage(segment.path, flip(segment.at))
		local before = fingerprint(node.data)
		refuses(node, 3, { segment.path:match("[^/]+$") })
		assert.equal(before, fingerprint(node.data))

		-- The byte put back: everything is there.
		damage(segment.path, flip(segment.at))
		node:start():wait_ready()
		for i = 1, 50 do node:get("/v1/topics/kept-" .. i, 200) end
	end)

	-- The tail itself may be torn: that is what a power cut looks like, and no reason to refuse.
	harness.case("takes a log whose last record is torn", ONE, function(c)
		local node = c.nodes[1]
		node:post("/v1/topics", { name = "kept", partitions = 3 }, 201)
		node:kill()
		for _, path in ipairs(files(node.data .. "/wal", ".")) do
			damage(path, function(bytes)
				-- Behind the last byte that is not zero a new record would begin; half of one is put there.
				local last = #bytes:match("^(.-)%z*$")
				if last < 512 or last + 64 > #bytes then return bytes end
				local at = last + (8 - last % 8) % 8
				return bytes:sub(1, at) .. "\40\0\0\0half a record, as a power cut leaves it" .. bytes:sub(at + 43 + 1)
			end)
		end
		node:start():wait_ready()
		node:get("/v1/topics/kept", 200)
	end)

	-- Term and vote: without them a node could vote twice in a term.
	local losses = {
		["lost"] = function(path) os.remove(path) end,
		["damaged in one slot"] = function(path) damage(path, blot(1, 512)) end,
		["damaged in both slots"] = function(path)
			damage(path, blot(1, 512))
			damage(path, blot(4097, 512))
		end,
		["empty"] = function(path) damage(path, function() return "" end) end,
	}
	for what, lose in pairs(losses) do
		harness.case("refuses a log whose term and vote are " .. what, ONE, function(c)
			local node = c.nodes[1]
			node:post("/v1/topics", { name = "kept", partitions = 3 }, 201)
			node:stop()
			lose(node.data .. "/wal/hardstate")
			local before = fingerprint(node.data)
			refuses(node, 3, { node.data, "vote" })
			assert.equal(before, fingerprint(node.data))
		end)
	end

	-- What else may be wrong with a directory; LMDB's lock file counts as a file too.
	local wrongs = {
		["whose identity is lost"] = { { "node" }, function(data) os.remove(data .. "/node") end },
		["whose identity is damaged"] = { { "node" }, function(data) damage(data .. "/node", flip(20)) end },
		["whose log is gone"] = { { "fsm.mdb", "Raft state" }, function(data)
			assert(os.execute("rm -r '" .. data .. "/wal'"))
		end },
		["whose log is older than its state"] = { { "fsm.mdb", "log" }, function(data)
			assert(os.execute("rm -r '" .. data .. "/wal' && mv '" .. data .. "/../wal.old' '" .. data .. "/wal'"))
		end },
		["that holds newer entry types"] = { { "type", "release" }, function() end, { "--max-entry-type", "2" } },
	}
	for what, wrong in pairs(wrongs) do
		harness.case("refuses a directory " .. what, ONE, function(c)
			local node = c.nodes[1]
			node:stop()
			assert(os.execute("cp -a '" .. node.data .. "/wal' '" .. node.data .. "/../wal.old'"))
			node:start():wait_ready()
			node:post("/v1/topics", { name = "kept", partitions = 3 }, 201)
			node:stop()
			wrong[2](node.data)
			local before = fingerprint(node.data)
			refuses(node, 3, wrong[1], wrong[3])
			assert.equal(before, fingerprint(node.data))
		end)
	end

	for _, which in ipairs { "http", "cluster" } do
		harness.case("refuses a " .. which .. " port that is taken", { nodes = 2, start = false }, function(c)
			local holder, node = c.nodes[1], c.nodes[2]
			c.peers, c.flags = nil, { "--bootstrap" }
			holder:start():wait_ready()
			node[which .. "_port"] = holder[which .. "_port"]
			refuses(node, 1, { "127.0.0.1:" .. holder[which .. "_port"] })
			holder:get("/healthz", 200)
		end)
	end

	harness.case("refuses a data directory that is a file", ONE_STOPPED, function(c)
		local node = c.nodes[1]
		assert(io.open(node.data, "w")):close()
		refuses(node, 1, { node.data })
	end)

	-- A node of another cluster in the list: it stays apart and says so, and the cluster it came from keeps its data.
	harness.case("F28: keeps a node of another cluster out", { nodes = 4, start = false }, function(c)
		local peers, stranger = c.peers, c.nodes[4]
		c.peers, c.flags = nil, { "--bootstrap" }
		stranger:start():wait_ready()
		stranger:post("/v1/topics", { name = "foreign", partitions = 3 }, 201)
		stranger:stop()

		c.peers, c.flags = peers:gsub(",n4@.*$", ""), nil
		for i = 1, 3 do c.nodes[i]:start() end
		for i = 1, 3 do c.nodes[i]:wait_ready() end
		c.nodes[1]:post("/v1/topics", { name = "native", partitions = 3 }, 201)
		local want = c.nodes[1]:status().cluster_id

		c.peers = peers
		c.flags = { "--initial-members", "n1,n2,n3" }
		os.remove(stranger.log_path)
		stranger:start()
		harness.eventually(10000, "the stranger says that the others are of another cluster, or ends", function()
			if not stranger.pid or stranger:ended() then return true end
			return stranger:log():find(want, 1, true)
		end)
		for i = 1, 3 do
			assert.equal(want, c.nodes[i]:status().cluster_id)
			c.nodes[i]:get("/v1/topics/foreign", 404)
		end
	end)
end)
