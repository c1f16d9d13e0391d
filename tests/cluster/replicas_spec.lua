-- Topics whose partitions have copies: a leader, an epoch, and who has everything that was acknowledged.

local harness = require "cluster.harness"

local function row(node, partition)
	return node:get("/v1/topics/orders/partitions/" .. partition, 200).json
end

local function ids(copies)
	local out = {}
	for i, copy in ipairs(copies) do out[i] = copy.id .. (copy.in_sync and "*" or "") end
	return table.concat(out, " ")
end

describe("a topic with replicas", function()
	harness.case("is placed, handed over and given other copies", { nodes = 3 }, function(c)
		local leader, follower = c:leader(), c:follower()
		local made = follower:post("/v1/topics", { name = "orders", partitions = 6, replicas = 2 }, 201).json
		assert.are.equal(2, made.replicas)
		local leads, holds = {}, {}
		for _, a in ipairs(follower:get("/v1/topics/orders/assignments", 200).json.assignments) do
			assert.are.equal("placed", a.state)
			assert.are.equal(1, a.leader_epoch)
			assert.are.equal(2, #a.replicas)
			assert.are.equal(a.owner_id, a.replicas[1].id)
			assert.is_true(a.replicas[1].in_sync and a.replicas[2].in_sync)
			leads[a.owner_id] = (leads[a.owner_id] or 0) + 1
			for _, copy in ipairs(a.replicas) do holds[copy.id] = (holds[copy.id] or 0) + 1 end
		end
		assert.are.same({ n1 = 2, n2 = 2, n3 = 2 }, leads)
		assert.are.same({ n1 = 4, n2 = 4, n3 = 4 }, holds)

		local before = row(leader, 0)
		local path = "/v1/topics/orders/partitions/0"
		local old, new = before.replicas[1].id, before.replicas[2].id
		local third = ({ n1 = true, n2 = true, n3 = true })
		third[old], third[new] = nil, nil
		third = next(third)
		local function lead(who, epoch, want, more)
			local body = { leader = who, topic_id = made.id, expected_epoch = epoch }
			for k, v in pairs(more or {}) do body[k] = v end
			return follower:post(path .. "/leader", body, want).json
		end
		assert.are.equal("stale_epoch", lead(new, 7, 409).code)
		assert.are.equal("not_in_sync", lead(third, 1, 409).code)
		assert.are.equal("already_owner", lead(old, 1, 409).code)
		assert.are.equal("topic_changed", lead(new, 1, 409, { topic_id = "0123456789abcdef" }).code)
		assert.are.equal("not_in_sync", lead("nobody", 1, 409).code)
		local after = lead(new, 1, 200)
		assert.are.equal(2, after.leader_epoch)
		assert.are.equal(new, after.owner_id)
		assert.are.equal(new .. "* " .. old, ids(after.replicas))
		assert.are.same(after, row(follower, 0))
		assert.are.equal("stale_epoch", lead(old, 1, 409, { unclean = true }).code)
		assert.are.equal(3, lead(old, 2, 200, { unclean = true }).leader_epoch)

		local function change(body, want)
			body.topic_id = made.id
			return follower:post(path .. "/replicas", body, want).json
		end
		assert.are.equal("bad_field", change({}, 400).code)
		assert.are.equal("not_in_sync", change({ remove = old }, 409).code)
		assert.are.equal("member_not_found", change({ add = "nobody" }, 404).code)
		local more = change({ add = third }, 200)
		assert.are.equal(old .. "* " .. new .. " " .. third, ids(more.replicas))
		assert.are.equal(old .. "* " .. third, ids(change({ remove = new }, 200).replicas))

		-- Who has a copy is asked by all names that lists and confirmations know.
		local held = leader:get("/v1/assignments?replica=" .. third .. "&prefix=orders", 200).json.assignments
		assert.are.equal(5, #held)
		local confirmed = follower:get("/v1/confirm/topics/orders/partitions/0?member=" .. third, 200).json
		assert.is_true(confirmed.holds)
		assert.are.equal("replica", confirmed.as)
		assert.is_false(follower:get("/v1/confirm/topics/orders/partitions/0?member=" .. new, 200).json.holds)

		-- What knows of one owner only does not touch it.
		assert.are.equal("replicated", leader:post(path .. "/move", { target = new }, 409).json.code)
		leader:post("/v1/topics", { name = "single", partitions = 3 }, 201)
		assert.are.equal("not_replicated", leader:post("/v1/topics/single/partitions/0/replicas",
			{ topic_id = leader:get("/v1/topics/single", 200).json.id, add = "n1" }, 409).json.code)

		-- More copies wait for the policy; one alone makes the leader the owner.
		assert.are.equal(1, leader:patch("/v1/topics/orders", { replicas = 1 }, 200).json.replicas)
		assert.is_nil(row(leader, 0).replicas)
		assert.are.equal(old, row(leader, 0).owner_id)
		c:settle()
	end)

	-- The leaders of a dead server's partitions are others soon, and it leads nothing when it comes back.
	harness.case("gets new leaders when a server dies", { nodes = 3, flags = { "--member-heartbeat-ms", "300" } },
		function(c)
			c:leader():patch("/v1/settings", { failover_after_s = 2 }, 200)
			local made = c:leader():post("/v1/topics", { name = "orders", partitions = 12, replicas = 2 }, 201).json
			local dead = c:follower()
			local led = dead:get("/v1/assignments?owner=" .. dead.id .. "&prefix=orders", 200).json.assignments
			assert.are.equal(4, #led)
			c:settle()
			dead:kill()
			local function rows_of(query)
				return c:leader():get("/v1/assignments?" .. query .. "&prefix=orders", 200).json.assignments
			end
			harness.eventually(15000, "nobody waits for the dead one", function()
				return #rows_of("owner=" .. dead.id) == 0
			end)
			for _, was in ipairs(led) do
				local now = row(c:leader(), was.partition)
				assert.are.equal(2, now.leader_epoch)
				assert.are.equal(was.replicas[2].id, now.owner_id)
				assert.are.equal(now.owner_id .. "* " .. dead.id, ids(now.replicas))
				assert.are.equal("placed", now.state)
			end
			assert.are.equal(8, #rows_of("replica=" .. dead.id))
			local entries = {}
			for _, e in ipairs(c:leader():get("/v1/log?topic=orders&limit=1000", 200).json.entries) do
				if e.actor == "policy:failover" then entries[#entries + 1] = e end
			end
			assert.are.equal(1, #entries)
			dead:start()
			dead:wait_ready()
			c:settle()
			assert.are.equal(0, #rows_of("owner=" .. dead.id))
			assert.is_string(made.id)
		end)
end)
