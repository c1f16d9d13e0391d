-- Reads that promise more than "as this node knows it": strong ones, and those of a bounded age.

local harness = require "cluster.harness"
local linear = require "cluster.linear"
local http, proc = harness.http, harness.proc

local WRITERS, READERS = harness.scaled(2, 5), harness.scaled(4, 10)

local function start_clients(c, consistency)
	local ports, paths = {}, {}
	for i, node in ipairs(c.nodes) do ports[i] = tostring(node.http_port) end
	local function start(kind, number)
		local path = ("%s/%s-%d.ops"):format(c.dir, kind, number)
		paths[#paths + 1] = path
		return c:spawn { "lua5.4", "tests/cluster/register.lua", kind, tostring(number), consistency, path,
			table.unpack(ports) }
	end
	local clients = { paths = paths }
	for i = 1, WRITERS do clients[i] = start("write", i) end
	for i = 1, READERS do clients[#clients + 1] = start("read", i) end
	return clients
end

local function stop_clients(clients)
	for _, pid in ipairs(clients) do
		proc.kill(pid, proc.SIGKILL)
		proc.wait(pid, 5000)
	end
end

-- What they were told. A writer may be killed before it has written down its last write: that one is known only from
-- those who read its value.
local function collect(clients, created)
	local operations, counts, written = { created }, { write = 0, read = 0 }, { [created.value] = true }
	local function add(op)
		operations[#operations + 1] = op
		counts[op.kind] = counts[op.kind] + 1
		if op.kind == "write" then written[op.value] = true end
	end
	for _, path in ipairs(clients.paths) do
		for line in io.lines(path) do
			local kind, value, sent, answered = line:match("^(%l+) (%d+) ([%d.]+) ([%d.inf]+)$")
			if kind then
				add { kind = kind, value = math.tointeger(tonumber(value)), sent = tonumber(sent),
					answered = answered == "inf" and math.huge or tonumber(answered) }
			end
		end
	end
	local lost = 0
	for i = 1, #operations do
		local value = operations[i].value
		if not written[value] then
			lost = lost + 1
			add { kind = "write", value = value, sent = created.sent, answered = math.huge }
		end
	end
	assert(lost <= WRITERS, lost .. " values were read that no writer knows of")
	return operations, counts
end

-- Things that happen to a cluster, in an order drawn anew each time; each ends healed.
local nemeses = {
	function(_, node, ms)
		node:pause()
		proc.sleep_ms(ms)
		node:resume()
	end,
	function(c, node, ms)
		c:isolate(node, true)
		proc.sleep_ms(ms)
		c:isolate(node, false)
	end,
	function(c, node)
		http.request(c.nodes[math.random(#c.nodes)].http_port, "POST", "/v1/cluster/leader", { to = node.id }, nil, 2)
		proc.sleep_ms(200)
	end,
}

-- Runs clients for `ms` while the cluster suffers; returns what they were told.
local function suffer(c, consistency, ms, suffering)
	local begun = proc.now_ms()
	c:leader():post("/v1/topics", { name = "register", partitions = 3, retention_ms = 3600000 }, 201)
	local created = { kind = "write", value = 3600000, sent = begun, answered = proc.now_ms() }
	c:settle()
	local clients = start_clients(c, consistency)
	while proc.now_ms() - begun < ms do suffering() end
	proc.sleep_ms(500)
	stop_clients(clients)
	return collect(clients, created)
end

describe("a strong read", function()
	harness.case("F31: is linearizable through pauses, cuts and hand-overs", { faults = true }, function(c)
		local seed = os.time()
		math.randomseed(seed)
		local operations, counts = suffer(c, "strong", harness.scaled(6000, 300000), function()
			nemeses[math.random(#nemeses)](c, c.nodes[math.random(#c.nodes)], math.random(300, harness.scaled(900, 3000)))
		end)
		local broken = linear.check(operations)
		assert(not broken, ("seed %d: %s"):format(seed, tostring(broken)))
		assert(counts.write > 50 and counts.read > 100, counts.write .. " writes, " .. counts.read .. " reads")
	end)

	-- The same clients reading locally: a node that is cut off says what was, and the check must see it.
	harness.case("F31: is what makes the difference", { faults = true }, function(c)
		local follower = c:follower()
		local operations = suffer(c, "local", 1500, function()
			c:isolate(follower, true)
			proc.sleep_ms(1000)
			c:isolate(follower, false)
		end)
		assert(linear.check(operations), "stale reads were not found in " .. #operations .. " operations")
	end)

	harness.case("is 503 where no majority confirms it, and works again where one does", { faults = true }, function(c)
		local cut = c:follower()
		c:leader():post("/v1/topics", { name = "t", partitions = 3 }, 201)
		c:settle()
		for _, node in ipairs(c.nodes) do
			local r = node:get("/v1/topics/t?consistency=strong", 200)
			assert.truthy(tonumber(r.headers["x-veena-index"]) > 0)
		end
		c:isolate(cut, true)
		harness.eventually(5000, "the cut node refuses", function()
			local r = cut:get("/v1/topics/t?consistency=strong")
			return r.status == 503 and r.json.code == "no_leader"
		end)
		cut:get("/v1/topics/t", 200)
		local stale = cut:get("/v1/topics/t?max_age_ms=500", 503)
		assert.equal("stale", stale.json.code)
		cut:get("/v1/topics/t?max_age_ms=60000", 200)
		c:isolate(cut, false)
		harness.eventually(10000, "it answers again", function()
			return cut:get("/v1/topics/t?consistency=strong").status == 200 and
				cut:get("/v1/topics/t?max_age_ms=500").status == 200
		end)
	end)

	-- Every list and record takes it, on every node, and shows what was written a moment ago through another.
	harness.case("sees what another node was told a moment before", {}, function(c)
		for i = 1, harness.scaled(60, 600) do
			local name = "t" .. i
			local writer, reader = c.nodes[i % 3 + 1], c.nodes[(i + 1) % 3 + 1]
			writer:post("/v1/topics", { name = name, partitions = 3 }, 201)
			reader:get("/v1/topics/" .. name .. "?consistency=strong", 200)
		end
		for _, target in ipairs { "/v1/topics", "/v1/assignments", "/v1/cluster/members", "/v1/cluster/servers", "/v1/log",
			"/v1/topics/t1/assignments", "/v1/topics/t1/partitions/0" } do
			c:follower():get(target .. "?consistency=strong", 200)
			c:follower():get(target .. "?max_age_ms=5000", 200)
		end
	end)
end)

describe("the check for linearizability", function()
	local function op(kind, value, sent, answered)
		return { kind = kind, value = value, sent = sent, answered = answered }
	end
	local W, R = "write", "read"

	it("accepts what can be put in order", function()
		for _, history in ipairs {
			{ op(W, 0, 0, 1) },
			{ op(W, 0, 0, 1), op(W, 1, 2, 5), op(R, 0, 3, 4), op(R, 1, 6, 7) },
			{ op(W, 0, 0, 1), op(W, 1, 2, 9), op(R, 1, 3, 4), op(R, 1, 5, 6) },
			{ op(W, 0, 0, 1), op(W, 1, 2, 9), op(W, 2, 2, 9), op(R, 2, 3, 4), op(R, 1, 5, 6) },
			{ op(W, 0, 0, 1), op(W, 1, 2, math.huge), op(R, 0, 3, 4), op(R, 1, 50, 51) },
			{ op(W, 0, 0, 1), op(W, 1, 2, math.huge), op(R, 0, 50, 51) },
		} do
			local broken = linear.check(history)
			assert(not broken, broken)
		end
	end)

	it("refuses what cannot", function()
		for i, history in ipairs {
			{ op(W, 0, 0, 1), op(W, 1, 2, 3), op(R, 0, 4, 5) }, -- stale
			{ op(W, 0, 0, 1), op(W, 1, 2, 9), op(R, 1, 3, 4), op(R, 0, 5, 6) }, -- back and forth
			{ op(W, 0, 0, 1), op(R, 7, 2, 3) }, -- out of nothing
			{ op(W, 0, 0, 1), op(R, 1, 2, 3), op(W, 1, 4, 5) }, -- from the future
			{ op(W, 0, 0, 1), op(W, 1, 2, math.huge), op(R, 1, 3, 4), op(R, 0, 5, 6) }, -- unknown, seen, gone
			{ op(W, 0, 0, 1), op(W, 1, 2, 3), op(R, 0, 9, 10), op(W, 2, 5, 6) }, -- overwritten twice
			{ op(W, 0, 0, 1), op(W, 1, 0, 1), op(R, 0, 2, 3), op(R, 1, 4, 5), op(R, 0, 6, 7) },
		} do
			assert(linear.check(history), "history " .. i .. " was accepted")
		end
	end)
end)
