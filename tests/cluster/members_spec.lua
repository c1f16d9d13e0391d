-- Members: every row of the contract on the leader and on a follower; a broker's day from its registration to a burnt
-- machine, each answer and its trace in the log.

local ROWS = require "cluster.members_rows"
local contract = require "cluster.contract"
local harness = require "cluster.harness"
local http = require "cluster.http"

local MEMBERS = "/v1/cluster/members"

local function refuse(answer, status, code)
	assert.are.equal(status, answer.status, answer.body)
	assert.are.equal(code, answer.json.code)
	return answer.json
end

local function session_of(registered)
	return { ["X-Veena-Session"] = registered.member.id .. ":" .. registered.session }
end

-- Names of the commands that the log holds about a member, oldest first.
local function trace(node, id)
	local names = {}
	for _, entry in ipairs(node:get("/v1/log?limit=1000", 200).json.entries) do
		for _, command in ipairs(entry.commands or {}) do
			if command.args and command.args.id == id then
				names[#names + 1] = command.name
				assert.is_nil(command.args.session, "a session is a secret")
			end
		end
	end
	return names
end

local function has(list, name)
	for _, item in ipairs(list) do
		if item == name then return true end
	end
	return false
end

describe("members", function()
	harness.case(("answer %d requests alike on leader and follower"):format(#ROWS), { flags = { "--max-moves", "0" } },
		function(c)
			harness.eventually(10000, "three members", function()
				return #c:leader():get("/v1/cluster/members", 200).json.members == 3
			end)
			contract.check(c, ROWS)
		end)
end)

describe("brokers", function()
	harness.case("have a day, through any node", { flags = { "--own-partitions", "off" } }, function(c)
		local leader, follower = c:leader(), c:follower()
		local function member(id) return leader:get(MEMBERS .. "/" .. id, 200).json end
		local function register(id, more, want)
			local body = { id = id, addr = "127.0.0.1:9000" }
			for k, v in pairs(more or {}) do body[k] = v end
			return follower:post(MEMBERS, body, want)
		end

		-- Registered, and heard of.
		refuse(leader:post(MEMBERS .. "/b1/heartbeat", {}), 404, "member_not_found")
		local first = register("b1", { tags = { rack = "a" }, store_id = "disk-1" }, 201).json
		assert.are.equal("broker", first.member.kind)
		assert.are.equal(leader:status().cluster_id, first.cluster_id)
		assert.are.equal(leader:status().cluster_id ~= "" and 30000, first.dead_after_ms)
		assert.is_true(first.heartbeat_ms > 0 and first.index > 0)
		local beat = follower:post(MEMBERS .. "/b1/heartbeat", {}, 200, session_of(first)).json
		assert.are.same({ "alive", false, true, first.session },
			{ beat.status, beat.draining, beat.placeable, beat.session })
		refuse(leader:post(MEMBERS .. "/b1/heartbeat", {}), 400, "bad_parameter")
		refuse(leader:post(MEMBERS .. "/n1/heartbeat", {}), 409, "member_is_server")
		refuse(register("n1"), 409, "member_is_server")
		assert.are.equal("b1", leader:get(MEMBERS .. "?tag=rack=a", 200).json.members[1].id)

		-- The gate leaves brokers out: they report no entry types, and newer ones are still proposed.
		assert.are.same({}, leader:status().held_back)
		leader:post("/v1/topics", { name = "gate" }, 201)
		assert.is_true(has((function()
			local names = {}
			for _, entry in ipairs(leader:get("/v1/log?topic=gate", 200).json.entries) do
				for _, command in ipairs(entry.commands) do names[#names + 1] = command.name end
			end
			return names
		end)(), "create topic with schema and link"))

		-- A newer process ends the session of the older one, on every node.
		local second = register("b1", { tags = { rack = "a" }, store_id = "disk-1" }, 201).json
		assert.are_not.equal(first.session, second.session)
		refuse(leader:post(MEMBERS .. "/b1/heartbeat", {}, nil, session_of(first)), 409, "session_replaced")
		refuse(follower:post(MEMBERS .. "/b1/leave", { mode = "restart" }, nil, session_of(first)), 409,
			"session_replaced")
		leader:post(MEMBERS .. "/b1/heartbeat", {}, 200, session_of(second))

		-- A wiped disk: not without an operator's word while partitions are on it.
		assert.are.equal(3, member("b1").owned_partitions)
		refuse(register("b1", { store_id = "disk-2" }), 409, "store_changed")
		leader:post(MEMBERS .. "/b1/heartbeat", {}, 200, session_of(second))
		second = register("b1", { store_id = "disk-2", accept_data_loss = true }, 201).json
		assert.are.equal("disk-2", second.member.store_id)
		harness.eventually(15000, "the partitions are placed anew", function()
			return member("b1").owned_partitions == 3
		end)

		-- Cordoned: it gets nothing, and that outlives a registration.
		local cordoned = follower:patch(MEMBERS .. "/b1", { placeable = false, labels = { team = "x" } }, 200).json
		assert.are.same({ false, { team = "x" } }, { cordoned.placeable, cordoned.labels })
		local other = register("b2", { store_id = "disk-b2" }, 201).json
		second = register("b1", { store_id = "disk-2" }, 201).json
		assert.is_false(second.member.placeable)
		leader:post("/v1/topics", { name = "elsewhere" }, 201)
		assert.are.equal(3, member("b2").owned_partitions)
		follower:patch(MEMBERS .. "/b1", { placeable = true, labels = { team = http.null } }, 200)
		assert.are.same({}, member("b1").labels)
		refuse(leader:patch(MEMBERS .. "/b1", "{}"), 400, "bad_field")
		refuse(leader:patch(MEMBERS .. "/zz", { placeable = true }), 404, "member_not_found")

		-- Drained, and taken back.
		local dry = leader:post(MEMBERS .. "/b1/decommission?dry_run=true", {}, 200).json
		assert.are.same({ true, true, "b1", true, false, 3, 0 },
			{ dry.dry_run, dry.would, dry.member, dry.would_decommission, dry.voter, dry.owned_partitions,
				dry.inbound_moves })
		follower:post(MEMBERS .. "/b1/decommission", {}, 204)
		assert.is_true(leader:post(MEMBERS .. "/b1/heartbeat", {}, 200, session_of(second)).json.draining)
		follower:delete(MEMBERS .. "/b1/decommission", 204)
		assert.is_false(member("b1").draining)
		refuse(leader:post(MEMBERS .. "/zz/decommission", {}), 404, "member_not_found")
		refuse(leader:delete(MEMBERS .. "/zz/decommission"), 404, "member_not_found")

		-- Gone for a restart: dead at once, alive with the next registration.
		local left = leader:post(MEMBERS .. "/b1/leave", { mode = "restart" }, 200, session_of(second)).json
		assert.are.equal("dead", left.status)
		refuse(leader:post(MEMBERS .. "/b1/decommission", {}), 409, "owner_dead")
		second = register("b1", { store_id = "disk-2" }, 201).json
		assert.are.equal("alive", second.member.status)

		-- Burnt: only a dead one, only with the flag, and then for good.
		refuse(leader:post(MEMBERS .. "/b1/lost", { accept_data_loss = true }), 409, "member_alive")
		leader:post(MEMBERS .. "/b1/leave", { mode = "restart" }, 200, session_of(second))
		local loss = refuse(follower:post(MEMBERS .. "/b1/lost", { reason = "fire" }), 409, "data_loss")
		assert.is_true(loss.unplaced >= 1)
		dry = leader:post(MEMBERS .. "/b1/lost?dry_run=true", "{}", 200).json
		assert.are.same({ false, "data_loss" }, { dry.would, dry.reasons[1].code })
		local lost = follower:post(MEMBERS .. "/b1/lost", { accept_data_loss = true, reason = "fire" }, 200).json
		assert.are.equal(loss.unplaced, lost.unplaced)
		refuse(leader:get(MEMBERS .. "/b1"), 404, "member_not_found")
		refuse(leader:post(MEMBERS .. "/b1/heartbeat", {}, nil, session_of(second)), 404, "member_not_found")
		refuse(register("b1"), 409, "member_removed")
		harness.eventually(15000, "what it held is placed anew", function()
			return member("b2").owned_partitions == 6
		end)
		assert.are.equal("alive", register("b1", { fresh = true }, 201).json.member.status)
		leader:post(MEMBERS .. "/b2/leave", { mode = "remove" }, 200, session_of(other))
		assert.is_true(member("b2").draining)

		local said = trace(leader, "b1")
		for _, name in ipairs{ "member registration", "member session", "member heartbeat", "member cordon",
			"member labels", "set draining", "member dead", "member lost" } do
			assert.is_true(has(said, name), name .. " is not in the log")
		end
		c:settle()
	end)
end)
