-- Disks that hang or fail and networks that pass some packets and not others, in real processes (faults.c).

local harness = require "cluster.harness"
local http, proc = harness.http, harness.proc

local function create_request(name)
	return http.format("POST", "/v1/topics", { name = name, partitions = 3 })
end

-- A create whose answer is looked at later.
local function begin_create(node, name, seconds)
	local conn = assert(http.connect(node.http_port, seconds or 20))
	assert(conn:send(create_request(name)))
	return conn
end

local function is_silent(conn, ms)
	conn:settimeout(ms / 1000)
	local bytes, why = conn.sock:receive(1)
	conn:settimeout(20)
	return bytes == nil and why == "timeout"
end

local function others(c, than)
	local out = {}
	for _, node in ipairs(c.nodes) do
		if node ~= than then out[#out + 1] = node end
	end
	return out
end

-- The node that leads, asked among `nodes` only.
local function leader_among(nodes, ms)
	return harness.eventually(ms, "one of the others leads", function()
		for _, node in ipairs(nodes) do
			if node:status().role == "leader" then return node end
		end
	end)
end

describe("the leader's disk", function()
	harness.case("F04: hangs, and another takes writes within 5 s", { faults = true }, function(c)
		local old = c:leader()
		old:post("/v1/topics", { name = "before", partitions = 3 }, 201)
		local hung = proc.now_ms()
		old:faults { sync = "h" }
		local in_hand = {}
		for i = 1, 5 do in_hand[i] = begin_create(old, "in-hand-" .. i) end
		local new = leader_among(others(c, old), 5000)
		new:post("/v1/topics", { name = "meanwhile", partitions = 3 }, 201)
		assert.is_true(proc.now_ms() - hung < 5000)
		for i, conn in ipairs(in_hand) do
			local r = assert(conn:receive("POST"))
			assert.equal(503, r.status, "in-hand-" .. i .. ": " .. r.body)
			assert.equal("unknown", r.json.outcome)
			conn:close()
		end
		assert.not_equal("leader", old:status().role)
		assert.truthy(old:log():find("raft.step_down", 1, true))
		assert.is_nil((old:get("/v1/topics/before", 200)).headers["x-veena-applied"])
		old:faults {}
		harness.eventually(10000, "its disk is back, and it follows", function() return old:is_ready() end)
		c:settle()
	end)

	-- It acknowledges nothing further, says why in one line and in its status, and ends; a restart has what counted.
	harness.case("F04 F22: fails once, and the node gives up its office and ends", { faults = true }, function(c)
		local old = c:leader()
		for i = 1, 20 do old:post("/v1/topics", { name = "kept-" .. i, partitions = 3 }, 201) end
		old:faults { sync = "e" }
		local r = old:post("/v1/topics", { name = "lost", partitions = 3 })
		assert.is_true(r.status == 503, r.status .. " " .. r.body)
		local stopped = harness.eventually(2000, "its status says why", function() return old:status().stopped end)
		assert.truthy(stopped:find("sync", 1, true) or stopped:find("log", 1, true), stopped)
		r = old:post("/v1/topics", { name = "after", partitions = 3 })
		assert.is_true(r.status == 503 and r.json.outcome == "none", r.status .. " " .. r.body)
		assert.is_false((old:is_ready()))
		local new = leader_among(others(c, old), 5000)
		new:post("/v1/topics", { name = "meanwhile", partitions = 3 }, 201)
		assert.equal(4, (old:wait_exit(15000)))
		old:start():wait_ready()
		c:settle()
		for i = 1, 20 do old:get("/v1/topics/kept-" .. i, 200) end
		old:get("/v1/topics/meanwhile", 200)
		old:get("/v1/topics/after", 404)
	end)
end)

describe("an acknowledged write", function()
	harness.case("F21: is on the disk of the only node first", { nodes = 1, faults = true }, function(c)
		local node = c:leader()
		for i = 1, harness.scaled(3, 50) do
			node:faults { sync = "h" }
			local conn = begin_create(node, "t-" .. i)
			assert.is_true(is_silent(conn, 250), "answered before it was synced")
			node:faults {}
			assert.equal(201, assert(conn:receive("POST")).status)
			conn:close()
			node:kill()
			node:start():wait_ready()
			assert.equal(i, #node:topic_names())
		end
	end)

	-- Both followers' disks hang: the leader's own copy and those of two learners make no majority of the voters.
	harness.case("F21: is on the disks of a majority, learners not counted", { joiners = 2, faults = true }, function(c)
		local leader, learner = c:leader(), c.nodes[4]
		for i = 4, 5 do
			c.nodes[i].flags = { "--learner" }
			c.nodes[i]:start():wait_ready()
		end
		local voters = {}
		for i = 1, 3 do
			if c.nodes[i] ~= leader then voters[#voters + 1] = c.nodes[i] end
		end
		for _, node in ipairs(voters) do node:faults { sync = "h" } end
		local conn = begin_create(leader, "t")
		assert.is_true(is_silent(conn, 500), "answered by one of three disks")
		voters[1]:faults {}
		assert.equal(201, assert(conn:receive("POST")).status)
		conn:close()
		voters[2]:faults {}
		c:settle()
		learner:get("/v1/topics/t", 200)
	end)
end)

describe("a network that passes some packets and not others", function()
	-- Only the link between the leader and one follower is broken: first both ways, then from the leader to it.
	for _, way in ipairs { "both ways", "from the leader" } do
		harness.case("F05: cut " .. way .. " costs no writes and no terms", { faults = true }, function(c)
			local a, b = c:leader(), c:follower()
			local third
			for _, node in ipairs(c.nodes) do
				if node ~= a and node ~= b then third = node end
			end
			local term = a:status().term
			a:faults { cut = { b } }
			if way == "both ways" then b:faults { cut = { a } } end
			local begun, n, longest, last_contact = proc.now_ms(), 0, 0, 0
			while proc.now_ms() - begun < harness.scaled(6500, 60000) do
				for _, node in ipairs { a, third } do
					local sent = proc.now_ms()
					n = n + 1
					node:post("/v1/topics", { name = "t-" .. n, partitions = 3 }, 201)
					longest = math.max(longest, proc.now_ms() - sent)
				end
				local contact = tonumber(b:get("/v1/topics", 200).headers["x-veena-contact-ms"])
				assert.is_true(contact > last_contact or contact < 1000, "contact went back to " .. contact)
				last_contact = contact
				proc.sleep_ms(20)
			end
			assert.is_true(longest < 2000, "a write took " .. longest .. " ms")
			assert.is_true(last_contact > 5000, "it heard the leader " .. last_contact .. " ms ago")
			local ready, why = b:is_ready()
			assert.is_false(ready, why)
			for _, node in ipairs(c.nodes) do assert.is_true(node:status().term <= term + 1, node.id) end
			a:faults {}
			b:faults {}
			b:wait_ready()
			c:settle()
		end)
	end
end)
