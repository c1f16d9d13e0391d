-- What a broker asks before it deletes a copy: a definite answer from the leader, or none.

local harness = require "cluster.harness"
local http = harness.http

local function confirm(node, target, want)
	return node:get("/v1/confirm/topics/" .. target, want or 200)
end

describe("the leader's confirmation", function()
	harness.case("says of topics and partitions what stands, on every node", {}, function(c)
		local made = c:leader():post("/v1/topics", { name = "orders", partitions = 3 }, 201).json
		local child = c:leader():post("/v1/topics", { name = "copy", partitions = 3, parent = "orders" }, 201).json
		local row = c:leader():get("/v1/topics/orders/partitions/1", 200).json
		local other = row.owner_id == "n1" and "n2" or "n1"

		for _, node in ipairs(c.nodes) do
			local function ask(target) return confirm(node, target).json end
			local yes = ask("orders?id=" .. made.id)
			assert.is_true(yes.exists and yes.confirmed)
			assert.is_true(yes.index >= row.version)
			assert.is_true(ask("orders").exists)
			assert.is_false(ask("orders?id=0123456789abcdef").exists)
			assert.is_true(ask("copy?attach_epoch=" .. child.attach_epoch).exists)
			assert.is_false(ask("copy?attach_epoch=0123456789abcdef").exists)
			assert.is_false(ask("nothing").exists)

			local owner = ask("orders/partitions/1?member=" .. row.owner_id .. "&id=" .. made.id)
			assert.are.equal("owner", owner.as)
			assert.is_true(owner.exists and owner.holds and owner.confirmed)
			assert.are.same(row, owner.assignment)
			assert.are.equal("alive", owner.owner_status)
			local no = ask("orders/partitions/1?member=" .. other)
			assert.is_true(no.exists and no.confirmed)
			assert.is_false(no.holds)
			assert.are.equal(http.null, no.as)
			assert.is_true(ask("orders/partitions/1").holds)
			for _, gone in ipairs { "orders/partitions/3", "nothing/partitions/0",
				"orders/partitions/1?id=0123456789abcdef" } do
				local answer = ask(gone)
				assert.is_false(answer.exists or answer.holds)
				assert.are.equal(http.null, answer.as)
				assert.is_true(answer.confirmed)
			end
			confirm(node, "orders/partitions/x", 400)
			confirm(node, "orders?min_index=3", 400)
			confirm(node, "orders?member=n1", 400)
		end
		c:leader():delete("/v1/topics/copy", 204)
		for _, node in ipairs(c.nodes) do assert.is_false(confirm(node, "copy").json.exists) end
	end)

	-- Any copy of a partition without an owner may be the last one.
	harness.case("lets nobody delete of a partition without an owner", { flags = { "--own-partitions", "off" } },
		function(c)
			c:leader():post("/v1/topics", { name = "orders", partitions = 3 }, 201)
			local answer = confirm(c:follower(), "orders/partitions/0?member=n9").json
			assert.is_true(answer.holds and answer.exists)
			assert.are.equal("unplaced", answer.as)
			assert.are.equal("unplaced", answer.assignment.state)
			assert.is_nil(answer.owner_status)
		end)

	harness.case("is refused by those who cannot have it, a leader without a majority included", {}, function(c)
		c:leader():post("/v1/topics", { name = "orders", partitions = 3 }, 201)
		c:settle()
		local leader = c:leader()
		local others = {}
		for _, node in ipairs(c.nodes) do if node ~= leader then others[#others + 1] = node end end
		for _, node in ipairs(others) do node:pause() end
		for _, target in ipairs { "orders", "nothing", "orders/partitions/0?member=n9" } do
			local answer = confirm(leader, target, 503)
			assert.are.equal("not_confirmed", answer.json.code)
			assert.is_nil(answer.json.outcome)
			assert.are.equal("1", answer.headers["retry-after"])
		end
		leader:pause()
		others[1]:resume()
		local answer = confirm(others[1], "nothing", 503)
		assert.are.equal("not_confirmed", answer.json.code)
		leader:resume()
		others[2]:resume()
	end)
end)

describe("a node that starts with old data", function()
	-- An agent that deletes whatever the node says is gone; the node's own lists lack the newest topics for a while.
	harness.case("F37: never says that a live topic is gone", { flags = { "--snapshot-entries", "20",
		"--snapshot-interval-s", "1" }, faults = true }, function(c)
		local count = harness.scaled(60, 1000)
		for i = 1, 30 do c:leader():post("/v1/topics", { name = "old-" .. i, partitions = 3 }, 201) end
		c:settle()
		local old = c:follower()
		old:stop()
		local ids = {}
		for i = 1, count do
			local name = "new-" .. i
			ids[name] = c:leader():post("/v1/topics", { name = name, partitions = 3 }, 201).json.id
		end
		c:isolate(old, true)
		old:start()
		harness.eventually(10000, "the old node answers", function()
			return pcall(old.get, old, "/v1/topics", 200)
		end)
		local seen = { [200] = 0, [503] = 0 }
		local function sweep()
			for name, id in pairs(ids) do
				local answer = http.request(old.http_port, "GET", "/v1/confirm/topics/" .. name .. "?id=" .. id)
				seen[answer.status] = seen[answer.status] + 1
				if answer.status == 200 then
					assert.is_true(answer.json.exists, name .. " is alive and was said to be gone")
				else
					assert.are.equal("not_confirmed", answer.json.code)
					return
				end
			end
		end
		old:get("/v1/topics/new-" .. count, 404)
		sweep()
		assert.are.equal(0, seen[200])
		c:isolate(old, false)
		harness.eventually(20000, "the node hears the leader again", function()
			sweep()
			return seen[200] > 0
		end)
		for _ = 1, 3 do sweep() end
		assert.is_true(seen[200] > count)
	end)
end)
