-- What a three-node cluster promises while nothing is wrong: a write through any node is there, everywhere, in order.

local harness = require "cluster.harness"
local http = harness.http

describe("a cluster of three", function()
	-- Read-your-writes through a follower: the 201 of a create means that this very node shows it.
	harness.case("shows a create on the follower that took it, every time", {}, function(c)
		local follower = c:follower()
		local conn = assert(http.connect(follower.http_port))
		local count = 1000
		for i = 1, count do
			local name = "orders-" .. i
			local created = assert(conn:request("POST", "/v1/topics", { name = name, partitions = 3 }))
			assert.equal(201, created.status, created.body)
			assert.is_nil(created.headers["x-veena-applied"], "the follower did not apply its own write")
			local read = assert(conn:request("GET", "/v1/topics/" .. name))
			assert.equal(200, read.status, name .. ": " .. read.body)
			assert.equal(name, read.json.name)
			assert.is_true(tonumber(read.headers["x-veena-index"]) >= tonumber(created.headers["x-veena-index"]))
		end
		conn:close()
		c:settle()
		for _, node in ipairs(c.nodes) do assert.equal(count, #node:topic_names(), node.id) end
	end)

	-- A 201 means placed: each partition has a live owner, and the three nodes share them evenly.
	harness.case("places the partitions of a create", {}, function(c)
		c:follower():post("/v1/topics", { name = "orders", partitions = 9 }, 201)
		local rows = c:leader():get("/v1/topics/orders/assignments", 200).json.assignments
		local owned = {}
		assert.equal(9, #rows)
		for i, row in ipairs(rows) do
			assert.equal(i - 1, row.partition)
			assert.equal("placed", row.state)
			owned[row.owner_id] = (owned[row.owner_id] or 0) + 1
		end
		assert.same({ n1 = 3, n2 = 3, n3 = 3 }, owned)
	end)

	-- What the leader answers a follower's client is what it would answer its own: same status, same body.
	harness.case("answers alike on leader and follower", {}, function(c)
		local leader, follower = c:leader(), c:follower()
		leader:post("/v1/topics", { name = "there", partitions = 4 }, 201)
		local cases = {
			{ "POST", "/v1/topics", { name = "there", partitions = 3 }, 409 },
			{ "POST", "/v1/topics", { name = "THERE", partitions = 3 }, 409 },
			{ "POST", "/v1/topics", { name = "a/b", partitions = 3 }, 400 },
			{ "POST", "/v1/topics", { name = "x", partitions = 2 }, 400 },
			{ "POST", "/v1/topics", { name = "x", partitions = 3, nosuch = 1 }, 400 },
			{ "POST", "/v1/topics", '{"name":"x","name":"y","partitions":3}', 400 },
			{ "POST", "/v1/topics", "{", 400 },
			{ "PATCH", "/v1/topics/there", { partitions = 3 }, 400 },
			{ "PATCH", "/v1/topics/absent", { partitions = 30 }, 404 },
			{ "PATCH", "/v1/topics/there", { retention_ms = 7200000 }, 200 },
			{ "DELETE", "/v1/topics/absent", nil, 404 },
			{ "GET", "/v1/topics/absent", nil, 404 },
			{ "GET", "/v1/nothing", nil, 404 },
			{ "PUT", "/v1/topics", {}, 405 },
		}
		for _, case in ipairs(cases) do
			local what = case[1] .. " " .. case[2]
			local a = assert(http.request(leader.http_port, case[1], case[2], case[3]))
			local b = assert(http.request(follower.http_port, case[1], case[2], case[3]))
			assert.equal(case[4], a.status, what .. " on the leader: " .. a.body)
			assert.equal(a.status, b.status, what .. " on the follower: " .. b.body)
			if a.json and a.json.index then a.json.index, b.json.index = nil, nil end
			assert.same(a.json, b.json, what)
		end
	end)

	-- Concurrent creates of one name through all nodes: one 201, the others 409, and one record.
	harness.case("creates a name once however many ask", {}, function(c)
		for round = 1, harness.scaled(20, 200) do
			local conns, created = {}, 0
			for i, node in ipairs(c.nodes) do
				conns[i] = assert(http.connect(node.http_port))
				assert(conns[i]:send(http.format("POST", "/v1/topics", { name = "race-" .. round, partitions = 3 })))
			end
			for _, conn in ipairs(conns) do
				local r = assert(conn:receive("POST"))
				assert.is_true(r.status == 201 or r.status == 409, r.body)
				if r.status == 201 then created = created + 1 end
				conn:close()
			end
			assert.equal(1, created, "round " .. round)
		end
		c:settle()
	end)

	-- Deleting through one node and reading through the others, with the index as the meeting point.
	harness.case("lets a reader wait for a write by its index", {}, function(c)
		local leader, follower = c:leader(), c:follower()
		for i = 1, 50 do
			leader:post("/v1/topics", { name = "brief-" .. i, partitions = 3 }, 201)
			local gone = leader:delete("/v1/topics/brief-" .. i, 204)
			local index = gone.headers["x-veena-index"]
			follower:get("/v1/topics/brief-" .. i .. "?min_index=" .. index, 404)
		end
		local far = tonumber(leader:status().applied_index) + 1000000
		local r = follower:get("/v1/topics?min_index=" .. far, 503)
		assert.equal("behind", r.json.code)
	end)

	-- SIGTERM hands leadership over: no error but a short wait, exit 0, and the node comes back with all data.
	harness.case("hands over at SIGTERM and takes the node back", {}, function(c)
		local old = c:leader()
		old:post("/v1/topics", { name = "before", partitions = 3 }, 201)
		old:stop()
		local new = c:leader()
		assert.not_equal(old.id, new.id)
		new:post("/v1/topics", { name = "between", partitions = 3 }, 201)
		old:start():wait_ready()
		old:get("/v1/topics/before", 200)
		old:get("/v1/topics/between", 200)
		c:settle()
	end)
end)
