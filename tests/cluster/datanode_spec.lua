-- Servers with data nodes beside them (contrib/datanode): scaled out, one drained, one killed, a drain taken back, and
-- the leader killed in the middle of each. In the end everything is balanced, every partition has one owner and all its
-- records, at most max_moves moves were ever under way, and nobody wrote beside the owner.

local harness = require "cluster.harness"

local proc = harness.proc
local VEENA = os.getenv("VEENA") or "build/veena"
local PARTITIONS = harness.scaled(12, 60)
local MAX_MOVES = 8

-- ---- data nodes ----

local function start_datanode(c, id, beside)
	local urls = {}
	for i, node in ipairs(c.nodes) do urls[i] = "127.0.0.1:" .. node.http_port end
	c.datanodes = c.datanodes or {}
	c.datanodes[id] = c:spawn {
		VEENA, "--url", table.concat(urls, ","), "run", "contrib/datanode/datanode.lua", "--id", id, "--root",
		c.dir .. "/disks", "--keep-s", "1", beside and "--beside" or nil, out = c.dir .. "/" .. id .. ".datanode.log",
	}
end

local function kill_datanode(c, id)
	proc.kill(c.datanodes[id], proc.SIGKILL)
	proc.wait(c.datanodes[id], 5000)
	c.datanodes[id] = nil
end

local function records(c, id, a)
	local file = io.open(("%s/disks/%s/live/%s-%s-%d.log"):format(c.dir, id, a.topic, a.topic_id, a.partition), "rb")
	if not file then return nil end
	local list = {}
	for line in file:lines() do
		local n, who, at = line:match("^(%d+) (%S+) (%d+)$")
		if n then list[#list + 1] = { n = tonumber(n), who = who, at = tonumber(at) } end
	end
	file:close()
	return list
end

-- ---- what is asked of the cluster ----

-- The first node that answers.
local function get(c, target)
	for _, node in ipairs(c.nodes) do
		if node:is_up() then
			local ok, r = pcall(node.get, node, target, 200)
			if ok then return r.json end
		end
	end
end

local function post(c, target, body, want)
	return harness.eventually(15000, target, function()
		for _, node in ipairs(c.nodes) do
			if node:is_up() then
				local ok, r = pcall(node.post, node, target, body)
				if ok and r.status ~= 503 then
					assert(r.status == want, r.body)
					return r
				end
			end
		end
	end)
end

local function count_moves(c)
	local list = get(c, "/v1/cluster/moves")
	c.most_moves = math.max(c.most_moves or 0, list and #list.moves or 0)
	return list and #list.moves
end

local function owners(c)
	local list = get(c, "/v1/assignments?limit=1000")
	if not list then return nil end
	local held = {}
	for _, a in ipairs(list.assignments) do held[a.owner_id] = (held[a.owner_id] or 0) + 1 end
	return held, list.assignments
end

-- Waits until nothing moves and each of `ids` has its share; `most`: how many more than its share one may have.
local function wait_balanced(c, ids, ms)
	return harness.eventually(ms, "balanced over " .. table.concat(ids, " "), function()
		local moves, held = count_moves(c), owners(c)
		if moves ~= 0 or not held then return nil, tostring(moves) .. " moves" end
		local total, least, most, text = 0, math.huge, 0, {}
		for _, id in ipairs(ids) do
			local n = held[id] or 0
			total, least, most = total + n, math.min(least, n), math.max(most, n)
			text[#text + 1] = id .. "=" .. n
		end
		return most - least <= 1 and total == PARTITIONS, table.concat(text, " ")
	end)
end

local function wait_moving(c)
	harness.eventually(10000, "moves are under way", function() return (count_moves(c) or 0) > 0 end)
end

-- Kills the leader, waits for another, starts it again.
local function strike_leader(c)
	local leader = c:leader()
	leader:kill()
	c:leader(10000)
	leader:start()
end

-- Every partition's owner has every record that anybody ever wrote, and no two wrote at one time.
local function check_records(c, ids)
	local _, rows = owners(c)
	for _, a in ipairs(rows) do
		local mine = assert(records(c, a.owner_id, a), a.topic .. "/" .. a.partition .. ": the owner has no file")
		for i, r in ipairs(mine) do
			assert(r.n == i, ("%s/%d: record %d stands at %d"):format(a.topic, a.partition, r.n, i))
			assert(i == 1 or r.at >= mine[i - 1].at or r.who == mine[i - 1].who, "two wrote at one time")
		end
		for _, id in ipairs(ids) do
			local theirs = id ~= a.owner_id and records(c, id, a) or {}
			assert(#theirs <= #mine, ("%s/%d: %s has %d records, its owner %s only %d")
				:format(a.topic, a.partition, id, #theirs, a.owner_id, #mine))
			for i, r in ipairs(theirs) do
				assert(r.who == mine[i].who and r.at == mine[i].at,
					("%s/%d: record %d of %s is another than its owner's"):format(a.topic, a.partition, i, id))
			end
		end
	end
end

describe("data nodes", function()
	-- F36 names: target, source and leader killed in the middle of moves.
	harness.case("beside servers are scaled and killed, and lose nothing (F36)", {
		nodes = 3, joiners = 2, flags = { "--dead-after-s", "3", "--member-heartbeat-ms", "500",
			"--max-moves", tostring(MAX_MOVES) },
	}, function(c)
		local three, five = { "n1", "n2", "n3" }, { "n1", "n2", "n3", "n4", "n5" }
		assert(os.execute("mkdir -p " .. c.dir .. "/disks"))
		for _, id in ipairs(three) do start_datanode(c, id, true) end
		harness.eventually(10000, "three members", function()
			return #get(c, "/v1/cluster/members").members == 3
		end)
		post(c, "/v1/topics", { name = "orders", partitions = PARTITIONS }, 201)
		wait_balanced(c, three, 10000)

		-- 3 -> 5, the leader killed while partitions move.
		for i = 4, 5 do
			c.nodes[i]:start()
			start_datanode(c, c.nodes[i].id, true)
		end
		wait_moving(c)
		strike_leader(c)
		wait_balanced(c, five, 60000)

		-- A server dies with its data node: what they own stays theirs, marked, until they are back.
		local victim = c:follower()
		victim:kill()
		kill_datanode(c, victim.id)
		harness.eventually(20000, victim.id .. " is dead", function()
			for _, m in ipairs(get(c, "/v1/cluster/members").members) do
				if m.id == victim.id and m.status == "dead" then return true end
			end
		end)
		assert(owners(c)[victim.id] > 0)
		assert.are.equal(owners(c)[victim.id],
			#get(c, "/v1/assignments?limit=1000&state=owner_dead&owner=" .. victim.id).assignments)
		victim:start()
		start_datanode(c, victim.id, true)
		wait_balanced(c, five, 60000)

		assert(c.most_moves <= MAX_MOVES, c.most_moves .. " moves at one time")
		c:settle()
		-- Files that are nobody's any more are deleted, but only after the leader confirmed that.
		proc.sleep_ms(2000)
		check_records(c, five)
	end)

	-- F36 names: drained with partitions; target, source and leader killed; the drain taken back.
	harness.case("are scaled, drained and killed, and lose nothing (F36)", {
		nodes = 3, flags = { "--own-partitions", "off", "--dead-after-s", "3", "--member-heartbeat-ms", "500",
			"--max-moves", tostring(MAX_MOVES) },
	}, function(c)
		assert(os.execute("mkdir -p " .. c.dir .. "/disks"))
		for _, id in ipairs { "b1", "b2", "b3" } do start_datanode(c, id) end
		harness.eventually(10000, "three data nodes", function()
			return #get(c, "/v1/cluster/members").members == 6
		end)
		post(c, "/v1/topics", { name = "orders", partitions = PARTITIONS }, 201)
		wait_balanced(c, { "b1", "b2", "b3" }, 10000)

		-- 3 -> 5, the leader killed while partitions move.
		start_datanode(c, "b4")
		start_datanode(c, "b5")
		wait_moving(c)
		strike_leader(c)
		wait_balanced(c, { "b1", "b2", "b3", "b4", "b5" }, 60000)

		-- One drains; the drain is taken back half-way, then goes through with the leader killed in its middle.
		post(c, "/v1/cluster/members/b5/decommission", {}, 204)
		wait_moving(c)
		harness.eventually(10000, "the drain is taken back", function()
			return c:leader():delete("/v1/cluster/members/b5/decommission").status == 204
		end)
		wait_balanced(c, { "b1", "b2", "b3", "b4", "b5" }, 60000)
		post(c, "/v1/cluster/members/b5/decommission", {}, 204)
		wait_moving(c)
		strike_leader(c)
		wait_balanced(c, { "b1", "b2", "b3", "b4" }, 60000)
		harness.eventually(20000, "b5 is no member any more", function()
			for _, m in ipairs(get(c, "/v1/cluster/members").members) do
				if m.id == "b5" then return nil, m.status end
			end
			return true
		end)

		-- One dies in the middle of moves towards it and away from it: what it owns stays its own, and it comes back.
		start_datanode(c, "b6")
		wait_moving(c)
		kill_datanode(c, "b6")
		-- Nobody completes in its name without its session.
		for _, m in ipairs(get(c, "/v1/cluster/moves").moves) do
			local path = ("/v1/topics/%s/partitions/%d/move/complete"):format(m.topic, m.partition)
			local answer = c:leader():post(path, { topic_id = m.topic_id, move_id = m.move_id, expected_owner = m.from,
				target = m.to }, nil, { ["X-Veena-Session"] = m.to .. ":0123456789abcdef" })
			assert.are.same({ 409, "session_replaced" }, { answer.status, answer.json.code })
		end
		harness.eventually(20000, "b6 is dead", function()
			for _, m in ipairs(get(c, "/v1/cluster/members").members) do
				if m.id == "b6" and m.status == "dead" then return true end
			end
		end)
		for _, m in ipairs(get(c, "/v1/cluster/moves?detail").moves) do
			if m.to == "b6" then assert.are.equal("target_dead", m.blocked) end
		end
		strike_leader(c)
		start_datanode(c, "b6")
		local all = { "b1", "b2", "b3", "b4", "b6" }
		wait_balanced(c, all, 60000)

		assert(c.most_moves <= MAX_MOVES, c.most_moves .. " moves at one time")
		c:settle()
		-- Files that are nobody's any more are deleted, but only after the leader confirmed that.
		proc.sleep_ms(2000)
		check_records(c, { "b1", "b2", "b3", "b4", "b5", "b6" })
	end)
end)
