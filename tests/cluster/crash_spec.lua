-- What a cluster keeps when processes die or freeze: every acknowledged write, one history, and an honest answer.

local harness = require "cluster.harness"
local history = require "cluster.history"
local http, proc = harness.http, harness.proc

describe("a cluster whose processes die", function()
	-- kill -9 of the leader under load, round after round.
	harness.case("keeps every created topic through kills of the leader", {}, function(c)
		local loads, gaps = { history.start_load(c, "a"), history.start_load(c, "b") }, {}
		for round = 1, harness.scaled(4, 20) do
			local before = proc.now_ms()
			harness.eventually(10000, "the load gets through", function() return history.first_created(loads, before) end)
			local leader = c:leader()
			leader:kill()
			local killed = proc.now_ms()
			local answered = harness.eventually(10000, "a create succeeds again", function()
				return history.first_created(loads, killed)
			end)
			gaps[round] = answered - killed
			leader:start():wait_ready()
		end
		for _, load in ipairs(loads) do load.stop() end
		c:settle()
		local created = history.check(c, loads)
		table.sort(gaps)
		print(string.format("%d creates kept over %d kills of the leader; next write after %.0f ms (median), %.0f ms (worst)",
			created, #gaps, gaps[(#gaps + 1) // 2], gaps[#gaps]))
	end)

	-- The same for a follower: writes must not even notice.
	harness.case("keeps every created topic through kills of a follower", {}, function(c)
		local loads = { history.start_load(c, "a") }
		for _ = 1, harness.scaled(3, 20) do
			local before = proc.now_ms()
			harness.eventually(10000, "the load gets through", function() return history.first_created(loads, before) end)
			local follower = c:follower()
			follower:kill()
			follower:start():wait_ready()
		end
		loads[1].stop()
		c:settle()
		history.check(c, loads)
	end)

	-- Two of three gone: reads go on from the last one, writes say that nothing happened, and nothing is lost.
	harness.case("reads without a majority and refuses to write", {}, function(c)
		local names = {}
		for i = 1, 20 do
			names[i] = "kept-" .. i
			c:leader():post("/v1/topics", { name = names[i], partitions = 3 }, 201)
		end
		c:settle()
		local last = c:follower()
		for _, node in ipairs(c.nodes) do
			if node ~= last then node:kill() end
		end
		harness.eventually(10000, "the last node knows that it has no leader", function()
			return last:status().leader == ""
		end)
		for _, name in ipairs(names) do last:get("/v1/topics/" .. name, 200) end
		local refused = last:post("/v1/topics", { name = "refused", partitions = 3 }, 503)
		assert.equal("no_leader", refused.json.code)
		assert.equal("none", refused.json.outcome)
		assert.truthy(refused.headers["retry-after"])
		last:get("/healthz", 200)
		assert.is_false((last:is_ready()))

		for _, node in ipairs(c.nodes) do
			if node ~= last then node:start() end
		end
		for _, node in ipairs(c.nodes) do node:wait_ready() end
		for _, node in ipairs(c.nodes) do
			for _, name in ipairs(names) do node:get("/v1/topics/" .. name, 200) end
			node:get("/v1/topics/refused", 404)
		end
		c:settle()
	end)

	-- The leader's own disk is no majority: with both followers frozen it may answer anything but 201.
	harness.case("F21: acknowledges nothing that only the leader holds", {}, function(c)
		local leader = c:leader()
		for _, node in ipairs(c.nodes) do
			if node ~= leader then node:pause() end
		end
		local conn = assert(http.connect(leader.http_port, 20))
		for i = 1, 5 do assert(conn:send(http.format("POST", "/v1/topics", { name = "alone-" .. i, partitions = 3 }))) end
		for i = 1, 5 do
			local r = assert(conn:receive("POST"))
			assert.equal(503, r.status, "alone-" .. i .. ": " .. r.body)
			assert.truthy(r.json.outcome == "unknown" or r.json.outcome == "none", r.body)
		end
		conn:close()
		leader:kill()
		for _, node in ipairs(c.nodes) do
			if node ~= leader then node:resume() end
		end
		c:leader()
		leader:start():wait_ready()
		c:settle()
	end)

	-- All three at once, then all back: what was answered is on disk, not in memory.
	harness.case("survives a kill of all nodes at once", {}, function(c)
		local loads = {}
		for round = 1, harness.scaled(2, 10) do
			loads[round] = history.start_load(c, "r" .. round)
			local before = proc.now_ms()
			harness.eventually(10000, "the load gets through", function()
				return history.first_created({ loads[round] }, before)
			end)
			for _, node in ipairs(c.nodes) do node:signal(proc.SIGKILL) end
			for _, node in ipairs(c.nodes) do node:wait_exit() end
			loads[round].stop()
			c:start()
			c:settle()
			history.check(c, loads)
		end
	end)
end)

describe("a leader that freezes", function()
	-- SIGSTOP: the others elect; what the frozen one had in hand or finds in its sockets when it wakes must not be
	-- acknowledged on its old authority.
	harness.case("F06: is replaced, and acknowledges nothing stale when it wakes", {}, function(c)
		local old = c:leader()
		local old_term = old:status().term
		old:post("/v1/topics", { name = "contested", partitions = 3 }, 201)

		-- In hand: creates sent a moment before the stop, pipelined on one connection.
		local in_hand = assert(http.connect(old.http_port, 30))
		local hand_count = 30
		for i = 1, hand_count do
			assert(in_hand:send(http.format("POST", "/v1/topics", { name = "hand-" .. i, partitions = 3 })))
		end
		old:pause()
		local stopped = proc.now_ms()
		-- In its sockets: sent while it sleeps, and contradicted meanwhile by the new leader.
		local in_socket = assert(http.connect(old.http_port, 30))
		assert(in_socket:send(http.format("POST", "/v1/topics", { name = "taken", partitions = 3 })))
		assert(in_socket:send(http.format("PATCH", "/v1/topics/contested", { partitions = 5 })))

		local new = c:leader()
		assert.not_equal(old.id, new.id)
		assert.is_true(new:status().term > old_term)
		new:post("/v1/topics", { name = "taken", partitions = 7 }, 201)
		new:patch("/v1/topics/contested", { partitions = 9 }, 200)
		local pause_ms = harness.scaled(3000, 10000)
		proc.sleep_ms(math.max(0, stopped + pause_ms - proc.now_ms()))
		old:resume()

		-- The topic was made by another: only a refusal is right. Nine partitions cannot become five.
		local taken = assert(in_socket:receive("POST"))
		assert.is_true(taken.status == 409 or taken.status == 503, "taken: " .. taken.status .. " " .. taken.body)
		local altered, why = in_socket:receive("PATCH")
		assert.is_true(altered == nil or altered.status ~= 200, "a stale alter was acknowledged")
		assert.is_true(altered ~= nil or taken.headers["connection"] == "close", why)
		in_socket:close()

		local acknowledged = {}
		for i = 1, hand_count do
			local r = in_hand:receive("POST")
			if not r then break end
			assert.is_true(r.status == 201 or r.status == 503, "hand-" .. i .. ": " .. r.status .. " " .. r.body)
			if r.status == 201 then acknowledged[#acknowledged + 1] = "hand-" .. i end
		end
		in_hand:close()

		old:wait_ready()
		c:settle()
		for _, node in ipairs(c.nodes) do
			for _, name in ipairs(acknowledged) do node:get("/v1/topics/" .. name, 200) end
			assert.equal(7, node:get("/v1/topics/taken", 200).json.partitions)
			assert.equal(9, node:get("/v1/topics/contested", 200).json.partitions)
		end
		-- Nothing of the old term stands behind the first entry of the new one.
		local newest = 0
		for _, entry in ipairs(new:get("/v1/log?limit=1000", 200).json.entries) do
			assert.is_true(entry.term >= newest, "index " .. entry.index .. " is of term " .. entry.term)
			newest = entry.term
		end
		assert.is_true(newest > old_term)
	end)
end)
