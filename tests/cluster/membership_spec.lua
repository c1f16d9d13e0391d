-- Who belongs to a cluster, seen from outside: servers that come, go, come back wiped, elsewhere or never were there.

local harness = require "cluster.harness"

-- Until the leader shows the server as `what` ("voter", "learner"), or a row for which `what` is true.
local function await(c, node, what, ms)
	local is = type(what) == "function" and what or function(row) return row.voter == (what == "voter") end
	return harness.eventually(ms or 15000, node.id .. " is " .. tostring(what), function()
		local row = c:server(node.id)
		return row and is(row) and row, row and harness.http.encode(row) or "it has no row"
	end)
end

local function is_promotable(row) return row.promotable end

local function create(node, prefix, count)
	for i = 1, count do node:post("/v1/topics", { name = prefix .. "-" .. i, partitions = 3 }, 201) end
end

local function refusal(node, method, target, body, status, code)
	local r = method == "DELETE" and node:delete(target, status) or node:post(target, body, status)
	assert.equal(code, r.json.code, r.body)
	return r
end

local function set_server(on, node, voter, status)
	return on:post("/v1/cluster/servers", { id = node.id, cluster_addr = node:cluster_addr(), voter = voter }, status)
end

describe("a server that joins", function()
	harness.case("is a learner, catches up, is promoted, and leads", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		create(c:leader(), "before", 20)
		n4:start()
		await(c, n4, "voter")
		n4:wait_ready()
		c:settle()
		local status = n4:status()
		assert.same({ "n1", "n2", "n3", "n4" }, status.voters)
		assert.equal(20, #n4:topic_names())
		n4:post("/v1/topics", { name = "through-n4", partitions = 3 }, 201)
		c:leader():post("/v1/cluster/leader", { to = "n4" }, 200)
		assert.equal("n4", c:leader().id)
		n4:stop()
		c:leader()
		n4:start():wait_ready() -- it is a member, whatever its flags say
		c:settle()
	end)

	harness.case("stays a learner with --learner, and answers reads", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		n4.flags = { "--learner" }
		create(c:leader(), "t", 5)
		n4:start():wait_ready()
		local row = await(c, n4, "learner")
		assert.is_false(row.promotable)
		assert.equal("it was started with --learner", row.reason)
		assert.equal(5, #n4:topic_names())
		assert.equal(5, #n4:get("/v1/topics?consistency=strong", 200).json.topics)
		assert.equal("learner_only", set_server(c:leader(), n4, true, 409).json.code)
		assert.equal("not_a_voter", c:leader():post("/v1/cluster/leader", { to = "n4" }, 409).json.code)
		harness.proc.sleep_ms(1500)
		assert.is_false(c:server("n4").voter)
	end)
end)
