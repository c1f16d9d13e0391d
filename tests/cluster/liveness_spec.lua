-- Who is called dead: only members that the leader itself has not heard of for the whole time.

local harness = require "cluster.harness"

local DEAD_AFTER_S = 2
local BROKERS = 20

local function status_of(c)
	local dead = {}
	for _, m in ipairs(c:leader():get("/v1/cluster/members", 200).json.members) do
		if m.status == "dead" then dead[m.id] = true end
	end
	return dead
end

local function marked(c)
	local n = 0
	for _, node in ipairs(c.nodes) do
		for _ in node:log():gmatch("member%.dead ") do n = n + 1 end
	end
	return n
end

describe("members", function()
	harness.case("F34: are not dead for a time without a leader", {
		flags = { "--own-partitions", "off", "--dead-after-s", tostring(DEAD_AFTER_S), "--member-heartbeat-ms", "500" },
	}, function(c)
		local sessions = {}
		for i = 1, BROKERS do
			local id = ("b%02d"):format(i)
			sessions[id] = c:leader():post("/v1/cluster/members", { id = id, addr = "10.0.0.1:1" }, 201).json.session
		end
		-- One round of heartbeats, through any node that answers; `silent` says nothing.
		local function beat(silent)
			for id, session in pairs(sessions) do
				for _, node in ipairs(id ~= silent and c.nodes or {}) do
					local ok, r = pcall(node.post, node, ("/v1/cluster/members/%s/heartbeat"):format(id), { x = nil },
						nil, { ["X-Veena-Session"] = id .. ":" .. session, ["X-Veena-Client"] = "test" })
					if ok and r.status == 200 then break end
				end
			end
		end
		local function beat_for(ms, silent)
			local until_ms = harness.proc.now_ms() + ms
			while harness.proc.now_ms() < until_ms do
				beat(silent)
				harness.proc.sleep_ms(300)
			end
		end

		-- Longer than the dead time nobody leads, and no heartbeat is taken.
		local first = c:leader()
		local others = {}
		for _, node in ipairs(c.nodes) do
			if node ~= first then others[#others + 1] = node end
		end
		for _, node in ipairs(others) do node:pause() end
		harness.proc.sleep_ms(harness.scaled(DEAD_AFTER_S * 1000 + 1000, 60000))
		for _, node in ipairs(others) do node:resume() end
		c:leader(20000)
		beat_for(DEAD_AFTER_S * 1000 + 1000)
		assert.are.same({}, status_of(c))
		assert.are.equal(0, marked(c))

		-- The leader changes again and again: nobody may die of that either.
		for _ = 1, 2 do
			c:leader():post("/v1/cluster/leader", { x = nil }, nil, { ["X-Veena-Client"] = "test" })
			c:leader()
			beat_for(700)
		end
		assert.are.same({}, status_of(c))

		-- Who really says nothing is dead, and only that one; then it says something again.
		harness.eventually(20000, "b07 is dead", function()
			beat("b07")
			return status_of(c).b07
		end)
		assert.are.same({ b07 = true }, status_of(c))
		assert.are.equal(1, marked(c))
		harness.eventually(5000, "b07 is alive", function()
			beat()
			return not status_of(c).b07
		end)
	end)

	-- A leader that drains hands over first, then leaves the configuration, then its record goes. Behind the minimum of
	-- voters nobody goes.
	harness.case("drain behind the minimum of voters, the leader handing over first", { nodes = 4 }, function(c)
		local leader = c:leader()
		harness.eventually(10000, "four members", function()
			return #leader:get("/v1/cluster/members", 200).json.members == 4
		end)
		leader:post("/v1/cluster/members/" .. leader.id .. "/decommission", { x = nil }, 204, { ["X-Veena-Client"] = "t" })
		local rest = {}
		for _, node in ipairs(c.nodes) do
			if node ~= leader then rest[#rest + 1] = node end
		end
		local function list(what)
			local ids = {}
			local rows = rest[1]:get("/v1/cluster/" .. what, 200).json
			for _, row in ipairs(rows.members or rows) do ids[row.id] = row end
			return ids
		end
		harness.eventually(20000, leader.id .. " is gone", function()
			return not list("servers")[leader.id] and not list("members")[leader.id]
		end)
		assert.truthy(leader:log():find("drain.hands_over", 1, true))
		assert.are_not.equal(leader.id, rest[1]:status().leader)

		-- Three are left: the next one may not go.
		local answer = rest[1]:post("/v1/cluster/members/" .. rest[1].id .. "/decommission", { x = nil }, nil,
			{ ["X-Veena-Client"] = "t" })
		assert.are.equal(409, answer.status, answer.body)
		assert.are.equal("below_min_voters", answer.json.reasons[1].code)
		assert.is_false(list("members")[rest[1].id].draining)
	end)
end)
