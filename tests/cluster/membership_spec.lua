-- Who belongs to a cluster, seen from outside: servers that come, go, come back wiped, elsewhere or never were there.

local harness = require "cluster.harness"
local history = require "cluster.history"
local http, proc = harness.http, harness.proc

local SERVERS = "/v1/cluster/servers"

-- Until the leader shows the server as "voter", "learner", "promotable" or "gone".
local function await(c, node, what, ms)
	return harness.eventually(ms or 15000, node.id .. " is " .. what, function()
		local row = c:server(node.id)
		local is = row and (what == "promotable" and row.promotable or what == "voter" and row.voter or
			what == "learner" and not row.voter)
		return is or (what == "gone" and not row), row and http.encode(row) or "it has no row"
	end)
end

local PIPELINED = 100 -- requests on their way; a server reads no further while its answers are not taken

local function create(node, prefix, count)
	local conn = assert(http.connect(node.http_port, 60))
	for i = 1, count + PIPELINED do
		if i <= count then
			assert(conn:send(http.format("POST", "/v1/topics", { name = prefix .. "-" .. i, partitions = 3 })))
		end
		if i > PIPELINED then
			local r = assert(conn:receive("POST"))
			assert.equal(201, r.status, r.body)
		end
	end
	conn:close()
end

local function set_server(on, node, voter, status)
	local body = { id = node.id, cluster_addr = node:cluster_addr(), voter = voter }
	return on:post(SERVERS, body, status)
end

local function refused(r, code, ...)
	assert.equal(code, r.json.code, r.body)
	for _, word in ipairs { ... } do assert.truthy(r.json.error:find(word, 1, true), r.body) end
	assert.truthy(r.json.index, "a refusal by the state carries its index: " .. r.body)
end

local function hand_over(on, to, status)
	return on:post("/v1/cluster/leader", { to = to }, status)
end

describe("a server that joins", function()
	harness.case("is a learner, catches up, is promoted, and leads", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		create(c:leader(), "before", 20)
		n4:start()
		await(c, n4, "voter")
		n4:wait_ready()
		c:settle()
		assert.same({ "n1", "n2", "n3", "n4" }, n4:status().voters)
		assert.equal(20, #n4:topic_names())
		n4:post("/v1/topics", { name = "through-n4", partitions = 3 }, 201)
		assert.equal("n4", hand_over(c:follower(), "n4", 200).json.leader)
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
		await(c, n4, "learner")
		local row = c:server("n4")
		assert.is_false(row.promotable)
		assert.equal("it was started with --learner", row.reason)
		assert.equal(5, #n4:topic_names())
		assert.equal(5, #n4:get("/v1/topics?consistency=strong", 200).json.topics)
		refused(set_server(c:leader(), n4, true, 409), "learner_only", "--learner")
		refused(hand_over(c:leader(), "n4", 409), "not_a_voter")
		proc.sleep_ms(1500) -- so long a learner keeps up before it is promoted
		assert.is_false(c:server("n4").voter)
	end)

	-- An older release cannot read what the log holds or will hold; another cluster's server brings another history.
	harness.case("is refused when it is older or of another cluster", { joiners = 2 }, function(c)
		local old, stranger = c.nodes[4], c.nodes[5]
		old.flags = { "--max-entry-type", "22" }
		old:start()
		harness.eventually(10000, "the join is refused", function() return old:log():find("join.refused", 1, true) end)
		refused(set_server(c.nodes[2], old, false, 409), "older_release", "entry types up to 22")
		assert.equal(3, #c.nodes[1]:get(SERVERS, 200).json)
		local ready, why = old:is_ready()
		assert.is_false(ready, why)
		old:get("/v1/topics", 503)

		c.join, stranger.joiner, c.peers = nil, false, nil
		stranger.flags = { "--bootstrap" }
		stranger:start():wait_ready()
		refused(set_server(c.nodes[1], stranger, true, 409), "other_cluster", stranger:cluster_addr())
		assert.same({ "n5" }, stranger:status().voters)
	end)
end)

describe("a change of the servers", function()
	-- Both ways in: on the leader and forwarded by a follower, with the same answers.
	harness.case("is judged alike on leader and follower, and a dry run changes nothing", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		n4.flags = { "--learner" }
		n4:start():wait_ready()
		await(c, n4, "learner")
		local cases = {
			{ "POST", SERVERS, { id = "n9" }, 404 },
			{ "POST", SERVERS, { id = "n9", cluster_addr = c.nodes[1]:cluster_addr() }, 409 },
			{ "POST", SERVERS, { id = "a/b", cluster_addr = "x:1" }, 400 },
			{ "POST", SERVERS, { id = "n9", cluster_addr = "x" }, 400 },
			{ "POST", SERVERS, { id = "n9", voter = "yes" }, 400 },
			{ "POST", SERVERS, { cluster_addr = "x:1" }, 400 },
			{ "DELETE", SERVERS .. "/n9", nil, 404 },
			{ "DELETE", SERVERS .. "/n1", nil, 204, "dry" },
			{ "POST", "/v1/cluster/leader", { to = "n9" }, 404 },
			{ "POST", "/v1/cluster/leader", { to = "n4" }, 409 },
			{ "POST", "/v1/cluster/leader", { who = "n4" }, 400 },
			{ "POST", SERVERS, { id = "n4", voter = false }, 200 },
		}
		local before = c:leader():status()
		for _, case in ipairs(cases) do
			for _, target in ipairs { case[2], case[2] .. "?dry_run=true" } do
				local is_dry = target ~= case[2]
				if is_dry or not case[5] then
					local a = assert(http.request(c:leader().http_port, case[1], target, case[3]))
					local b = assert(http.request(c:follower().http_port, case[1], target, case[3]))
					local want = is_dry and case[4] ~= 400 and 200 or case[4]
					assert.equal(want, a.status, case[1] .. " " .. target .. ": " .. a.body)
					if a.json then a.json.index = nil end
					if b.json then b.json.index = nil end
					assert.same(a.json, b.json, case[1] .. " " .. target)
					if is_dry and want == 200 then
						assert.is_true(a.json.dry_run)
						assert.equal(case[4] < 300 and case[5] ~= "dry", a.json.would, a.body)
					end
				end
			end
		end
		local after = c:leader():status()
		assert.equal(before.term, after.term)
		assert.same(before.voters, after.voters)
	end)

	harness.case("F10: leaves neither too few voters nor a minority of living ones", {}, function(c)
		local leader, follower = c:leader(), c:follower()
		refused(leader:delete(SERVERS .. "/" .. follower.id, 409), "below_min_voters", "2 voters", "keep 3")
		refused(leader:post(SERVERS, { id = follower.id, voter = false }, 409), "below_min_voters")
		for _, node in ipairs(c.nodes) do node:stop() end
		c.flags = { "--min-voters", "1" }
		c:start()
		leader, follower = c:leader(), c:follower()
		follower:kill()
		local living
		for _, node in ipairs(c.nodes) do
			if node ~= leader and node ~= follower then living = node end
		end
		harness.eventually(5000, "the leader misses the killed one", function()
			return c:server(follower.id).contact_ms > 2500
		end)
		refused(leader:delete(SERVERS .. "/" .. living.id, 409), "no_healthy_majority", follower.id)
		leader:delete(SERVERS .. "/" .. follower.id, 204)
		leader:delete(SERVERS .. "/" .. living.id, 204)
		assert.same({ leader.id }, leader:status().voters)
		leader:post("/v1/topics", { name = "alone", partitions = 3 }, 201)
	end)

	-- The dead stay in the configuration, so that a quorum is one of all five and the next loss is no silent end.
	harness.case("F10: is made by nobody but an operator, however many die", { nodes = 5 }, function(c)
		local five = { "n1", "n2", "n3", "n4", "n5" }
		create(c:leader(), "t", 20)
		c:settle()
		local dead = {}
		for i = 1, 2 do
			dead[i] = c:follower()
			dead[i]:kill()
		end
		proc.sleep_ms(harness.scaled(3000, 60000))
		assert.same(five, c:leader():status().voters)
		create(c:leader(), "u", 5)
		local kept = c:follower().id
		local no = c:leader():post("/v1/cluster/members/" .. kept .. "/decommission", {}, 409).json
		assert.equal("no_healthy_majority", no.code)
		assert.equal("no_healthy_majority", no.reasons[1].code)
		local survivor = c:follower()
		dead[3] = c:leader()
		dead[3]:kill()
		harness.eventually(10000, "two of five have no leader", function() return survivor:status().leader == "" end)
		local r = survivor:post("/v1/topics", { name = "refused", partitions = 3 }, 503)
		assert.equal("no_leader", r.json.code)
		assert.equal("none", r.json.outcome)
		assert.equal("no_leader", survivor:delete(SERVERS .. "/" .. dead[1].id, 503).json.code)
		dead[1]:start():wait_ready()
		assert.same(five, c:leader():status().voters)
		c:settle()
		assert.equal(25, #dead[1]:topic_names())
	end)

	-- A voter becomes a learner and a voter again; the leader may demote and remove itself, and another goes on.
	harness.case("reaches every standing, the leader's own too", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		n4:start():wait_ready()
		await(c, n4, "voter")
		local row = n4:post(SERVERS, { id = "n4", voter = false }, 200).json
		assert.same({ id = "n4", cluster_addr = n4:cluster_addr(), voter = false, staged = false }, row)
		assert.same({ "n4" }, c.nodes[1]:status().learners)
		await(c, n4, "promotable")
		assert.is_true(n4:post(SERVERS, { id = "n4" }, 200).json.voter)
		assert.is_true(n4:post(SERVERS, { id = "n4" }, 200).json.voter) -- once more: all is as asked
		local old = c:leader()
		local gone = old:delete(SERVERS .. "/" .. old.id, 204)
		assert.truthy(tonumber(gone.headers["x-veena-index"]))
		local left = {}
		for _, node in ipairs(c.nodes) do
			if node ~= old then left[#left + 1] = node end
		end
		harness.eventually(5000, "another leads without it", function()
			local status = left[1]:status()
			return status.leader ~= "" and status.leader ~= old.id and #status.voters == 3
		end)
		left[1]:post("/v1/topics", { name = "goes-on", partitions = 3 }, 201)
		harness.eventually(5000, old.id .. " knows it", function() return old:log():find("node.removed", 1, true) end)
	end)

	-- A removed server says so, asks nobody for votes, and comes back only when it is added.
	harness.case("that removes a server stops it, until it is added again", { joiners = 1 }, function(c)
		local n4 = c.nodes[4]
		n4:start():wait_ready()
		await(c, n4, "voter")
		c:leader():delete(SERVERS .. "/n4", 204)
		harness.eventually(5000, "n4 knows that it was removed", function() return n4:log():find("node.removed", 1, true) end)
		local term = c.nodes[1]:status().term
		n4:stop()
		n4:start()
		proc.sleep_ms(2500) -- it has asked to join by now, if it ever will
		assert.is_nil(c.nodes[1]:get(SERVERS, 200).json[4])
		assert.equal(term, c.nodes[1]:status().term)
		assert.equal(201, set_server(c.nodes[2], n4, true).status)
		await(c, n4, "voter")
		n4:wait_ready()
		c:settle()
	end)
end)

describe("handing over", function()
	-- 50,000 entries behind, dead, itself, a learner, unknown: at once, and the leader goes on.
	harness.case("F07: to a server that cannot take over is refused at once", {}, function(c)
		local leader, behind = c:leader(), c:follower()
		behind:pause()
		create(leader, "t", harness.scaled(1500, 50000))
		refused(hand_over(leader, behind.id, 409), "target_not_alive", behind.id)
		behind:resume()
		local begun = proc.now_ms()
		local r = hand_over(leader, behind.id)
		assert.is_true(r.status == 200 or r.json.code == "target_behind" or r.json.code == "target_not_alive", r.body)
		assert.is_true(proc.now_ms() - begun < 1500)
		leader = c:leader()
		refused(hand_over(leader, leader.id, 409), "already_leader")
		refused(hand_over(leader, "n9", 404), "member_not_found")
		leader:post("/v1/topics", { name = "goes-on", partitions = 3 }, 201)
	end)

	-- Under load: no write is lost or doubled, and none waits long.
	harness.case("F07: again and again loses no write", {}, function(c)
		local loads = { history.start_load(c, "a"), history.start_load(c, "b") }
		harness.eventually(10000, "the load gets through", function() return history.first_created(loads, 0) end)
		for i = 1, harness.scaled(8, 20) do
			local leader = c:leader()
			local to = c.nodes[leader == c.nodes[i % 3 + 1] and (i + 1) % 3 + 1 or i % 3 + 1]
			local begun = proc.now_ms()
			local r = hand_over(c.nodes[i % 2 + 1], to.id)
			assert.is_true(r.status == 200 and r.json.leader == to.id, r.body)
			harness.eventually(1000, "a create succeeds again", function() return history.first_created(loads, begun) end)
		end
		for _, load in ipairs(loads) do load.stop() end
		c:settle()
		history.check(c, loads)
	end)
end)

describe("a server that was cut off", function()
	-- It raises nothing while it is gone, and topples nobody when it is back: not before and not after it is added.
	harness.case("F09: and removed meanwhile topples no leader", { faults = true, flags = { "--min-voters", "2" } },
		function(c)
			local leader, gone = c:leader(), c:follower()
			c:isolate(gone, true)
			leader:delete(SERVERS .. "/" .. gone.id, 204)
			create(leader, "meanwhile", 50)
			proc.sleep_ms(harness.scaled(3000, 30000))
			local cut_ms = tonumber(gone:get("/v1/topics", 200).headers["x-veena-contact-ms"])
			assert.is_true(cut_ms > 2000, "it was cut off: " .. cut_ms)
			local term = leader:status().term
			c:isolate(gone, false)
			proc.sleep_ms(2000) -- its links are back, and it has asked for votes if it ever does
			assert.equal("leader", leader:status().role)
			assert.equal(term, leader:status().term)
			assert.equal(term, gone:status().term)
			local added = proc.now_ms()
			assert.equal(201, set_server(leader, gone, false).status)
			harness.eventually(10000, gone.id .. " is promotable", function()
				for _, row in ipairs(leader:get(SERVERS, 200).json) do
					if row.id == gone.id then return row.promotable end
				end
			end)
			-- How well it kept up before it was removed says nothing about now.
			assert.is_true(proc.now_ms() - added > 900, "promotable before it was watched for a second")
			assert.equal("leader", leader:status().role)
			assert.equal(term, leader:status().term)
			c:settle()
			assert.equal(50, #gone:topic_names())
		end)
end)

describe("a server that is not there", function()
	harness.case("F11: changes nothing, and a lagging learner says how far it is behind", { nodes = 1, joiners = 1 },
		function(c)
			local n1, n2 = c.nodes[1], c.nodes[2]
			local begun = proc.now_ms()
			refused(set_server(n1, n2, true, 409), "target_not_alive", n2:cluster_addr())
			assert.is_true(proc.now_ms() - begun < 5000)
			assert.same({ "n1" }, n1:status().voters)
			create(n1, "still", 1)

			n2.flags = { "--learner" }
			n2:start():wait_ready()
			await(c, n2, "learner")
			n2:pause()
			create(n1, "t", 400)
			local r = n1:post(SERVERS, { id = "n2", voter = true }, 409)
			assert.equal("learner_only", r.json.code, "its flag counts first: " .. r.body)
			n2:kill()
			n2.flags = nil
			n2:start()
			await(c, n2, "promotable")
			n2:pause()
			create(n1, "u", 400)
			r = n1:post(SERVERS, { id = "n2", voter = true }, 409)
			refused(r, "target_behind", "entries behind")
			assert.same({ "n1" }, n1:status().voters)
			create(n1, "goes-on", 1)
			n2:resume()
			await(c, n2, "promotable")
			n1:post(SERVERS, { id = "n2", voter = true }, 200)
			await(c, n2, "voter")
		end)
end)

describe("a machine that comes back", function()
	-- A vote of a disk that is gone must not count: with n2 stale, the empty n3 would elect a leader without what n1 and
	-- n3 acknowledged.
	harness.case("F12: with an empty disk counts for nothing until it is admitted anew", {}, function(c)
		local n1, n2, n3 = c.nodes[1], c.nodes[2], c.nodes[3]
		n2:stop()
		create(c:leader(), "acknowledged", 20)
		n1:stop()
		n3:stop()
		n3:wipe()
		n2:start()
		n3:start()
		proc.sleep_ms(harness.scaled(3000, 10000)) -- several elections' time
		for _, node in ipairs { n2, n3 } do
			assert.equal("", node:status().leader, node.id)
			assert.is_false((node:is_ready()))
		end
		n3:get("/v1/topics", 503) -- not an empty 200
		n1:start()
		harness.eventually(15000, "n3 is admitted and votes", function()
			local row = c:server("n3")
			return row and row.voter and n3:is_ready()
		end)
		c:settle()
		assert.equal(20, #n3:topic_names())
		assert.same({ "n1", "n2", "n3" }, n3:status().voters)
	end)

	harness.case("F12: with its disk at another address is found there", {}, function(c)
		local moved = c:follower()
		moved:stop()
		moved.cluster_port, moved.http_port = table.unpack(proc.free_ports(2))
		-- Its own entry follows; the others' --peers still say where it was.
		c.peers = c.peers:gsub(moved.id .. "@[^,]+", moved.id .. "@" .. moved:cluster_addr())
		moved:start()
		harness.eventually(10000, "everybody knows the new address", function()
			for _, node in ipairs(c.nodes) do
				for _, row in ipairs(node:get(SERVERS, 200).json) do
					if row.id == moved.id and (row.cluster_addr ~= moved:cluster_addr() or
						row.http_addr ~= "127.0.0.1:" .. moved.http_port) then
						return nil, node.id .. " says " .. http.encode(row)
					end
				end
			end
			return true
		end)
		moved:wait_ready()
		assert.equal(moved.id, hand_over(c:leader(), moved.id, 200).json.leader)
		moved:post("/v1/topics", { name = "there", partitions = 3 }, 201)
		c:settle()
	end)

	-- The full list of peers, an empty disk, no place in the cluster: neither a cluster of its own nor an empty answer.
	harness.case("F14: for the first time is not ready until it is admitted", { nodes = 4, start = false }, function(c)
		local n4 = c.nodes[4]
		c.flags = { "--initial-members", "n1,n2,n3" }
		n4:start()
		proc.sleep_ms(1500)
		assert.is_false((n4:is_ready()))
		n4:get("/v1/topics", 503)
		n4:get("/v1/topics?consistency=strong", 503)
		for i = 1, 3 do c.nodes[i]:start() end
		for i = 1, 3 do c.nodes[i]:wait_ready() end
		create(c.nodes[1], "t", 10)
		n4:wait_ready()
		await(c, n4, "voter")
		assert.equal(10, #n4:topic_names())
		assert.equal(c.nodes[1]:status().cluster_id, n4:status().cluster_id)
		c:settle()
	end)
end)
