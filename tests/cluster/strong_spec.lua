-- Reads that promise more than "as this node knows it": strong ones, and those of a bounded age.

local harness = require "cluster.harness"
local linear = require "cluster.linear"
local registers = require "cluster.registers"
local proc = harness.proc

local WRITERS, READERS = harness.scaled(2, 5), harness.scaled(4, 10)

local strikes = { registers.nemeses.pause, registers.nemeses.cut, registers.nemeses.transfer }

-- Runs clients for `ms` while the cluster suffers; returns what they were told.
local function suffer(c, consistency, ms, suffering)
	local created = registers.create(c)
	local clients = registers.start(c, { write = WRITERS, read = READERS }, consistency)
	local begun = proc.now_ms()
	while proc.now_ms() - begun < ms do suffering() end
	proc.sleep_ms(500)
	registers.stop(clients)
	return registers.collect(clients, created)
end

describe("a strong read", function()
	harness.case("F31: is linearizable through pauses, cuts and hand-overs", { faults = true }, function(c)
		local seed = os.time()
		math.randomseed(seed)
		local operations, counts = suffer(c, "strong", harness.scaled(6000, 300000), function()
			strikes[math.random(#strikes)](c, c.nodes[math.random(#c.nodes)], math.random(300, harness.scaled(900, 3000)))
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
