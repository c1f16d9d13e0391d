-- Rolling upgrades: processes that behave as older releases (--max-entry-type) are replaced one by one under load. No
-- write is lost, no entry type is used before every server applies it, and who is too old stays out (F26).

local harness = require "cluster.harness"
local history = require "cluster.history"

local function refuse(answer, status, code)
	assert.are.equal(status, answer.status, answer.body)
	assert.are.equal(code, answer.json.code)
	return answer.json
end

local function as_release(types)
	return types and { "--max-entry-type", tostring(types) } or nil
end

-- Stopped in order, started as another release.
local function replace(node, types)
	node:stop()
	node:start(as_release(types)):wait_ready()
end

-- A reader of the log from `since` on: each call says the newest entry type used so far.
local function new_reader(since)
	local newest = 0
	return function(node)
		repeat
			local page = node:get(("/v1/log?limit=1000&since=%d"):format(since), 200).json
			for _, entry in ipairs(page.entries) do
				for _, command in ipairs(entry.commands or {}) do newest = math.max(newest, command.type) end
				since = entry.index
			end
		until not page.next_since
		return newest
	end
end

-- Each process of a node says of each type at most once that it uses it, and never of one that it does not know.
local function check_first_uses(node)
	local said, any = {}, false
	for line in node:log():gmatch("[^\n]+") do
		if line:find(" node.opened ", 1, true) then said = {} end
		local type = line:match("metastore: every member applies raft entry type (%d+); using ")
		if type then
			assert.is_nil(said[type], ("%s said twice that it uses %s"):format(node.id, type))
			said[type], any = true, true
		end
	end
	return any
end

local function count(node, text)
	local n = 0
	for _ in node:log():gmatch((text:gsub("%p", "%%%0"))) do n = n + 1 end
	return n
end

describe("F26: an upgrade", function()
	harness.case("goes node by node under load", { joiners = 1, start = false }, function(c)
		local nodes = { c.nodes[1], c.nodes[2], c.nodes[3] }
		local joiner = c.nodes[4]
		for _, node in ipairs(nodes) do node:start(as_release(22)) end
		for _, node in ipairs(nodes) do node:wait_ready() end
		harness.eventually(10000, "everybody is registered", function()
			return c:leader():status().entry_types.cluster_min == 22
		end)
		local loads = {}
		for i = 1, harness.scaled(1, 4) do loads[i] = history.start_load(c, "load" .. i) end
		local newest = new_reader(c:leader():status().applied_index)

		-- One after another; while one lacks the new types none is used, and the status says who holds them back.
		local function upgrade(before, to)
			for i, node in ipairs(nodes) do
				replace(node, to)
				harness.proc.sleep_ms(harness.scaled(0, 3000))
				local leader = c:leader()
				if i < 3 then
					assert.are.equal(before, leader:status().entry_types.cluster_min)
					assert.is_true(newest(leader) <= before)
					local held = leader:status().held_back
					assert.is_true(#held == 0 or held[1].by ~= node.id)
				end
			end
			harness.eventually(10000, "the new types may be used", function()
				local status = c:leader():status()
				return status.entry_types.cluster_min == (to or status.entry_types.max) and #status.held_back == 0
			end)
		end

		-- Back and forth is allowed while somebody still runs the older release.
		replace(nodes[1], 32)
		replace(nodes[1], 22)
		refuse(c:leader():post("/v1/topics", { name = "labelled", labels = { k = "v" } }), 412, "held_back")
		upgrade(22, 32)
		harness.eventually(10000, "a newer type is used", function()
			return newest(c:leader()) > 22
		end)
		assert.is_true(newest(c:leader()) <= 32)

		-- An older one does not come in, by its own word or by an operator's.
		local leader = c:leader()
		joiner:start(as_release(22))
		refuse(harness.eventually(10000, "the joiner is judged", function()
			local answer = leader:post("/v1/cluster/servers", { id = "n4", cluster_addr = joiner:cluster_addr() })
			return answer.status == 409 and answer.json.code ~= "target_not_alive" and answer
		end), 409, "older_release")
		harness.eventually(10000, "the joiner hears why", function()
			return joiner:log():find("the cluster needs", 1, true)
		end)
		assert.are.equal("", joiner:status().leader)
		joiner:stop()
		table.remove(c.nodes) -- whoever asks all nodes means those of the cluster

		upgrade(32, 37)
		assert.is_true(newest(c:leader()) <= 37)
		-- The first two of the newest release: a feature of it is refused and names who lacks it.
		replace(nodes[1])
		replace(nodes[2])
		local no = refuse(c:leader():post("/v1/topics", { name = "labelled", labels = { k = "v" } }), 412, "held_back")
		assert.are.same({ "n3" }, no.members)
		assert.is_true(newest(c:leader()) <= 37)
		replace(nodes[3])
		harness.eventually(10000, "labels work", function()
			return c:leader():post("/v1/topics", { name = "labelled", labels = { k = "v" } }).status == 201
		end)

		for _, load in ipairs(loads) do load.stop() end
		c:leader():delete("/v1/topics/labelled", 204)
		c:settle()
		local created = history.check(c, loads)
		local any = false
		for _, node in ipairs(nodes) do any = check_first_uses(node) or any end
		assert.is_true(any)
		local held = 0
		for _, node in ipairs(nodes) do
			held = held + count(node, "metastore: not using a new raft entry type yet; proposing the entries every")
		end
		assert.is_true(held > 0)
		print(("# upgrade: %d topics created while servers were replaced"):format(created))
	end)

	-- Rolled back once everybody had reported the newer release: unsupported, and it damages nothing. The older release
	-- stops at the entry that it does not know (exit 4) or at a database that holds its effects (exit 3); others go on.
	harness.case("that is taken back too late stops the older release", {}, function(c)
		harness.eventually(10000, "everybody is registered", function()
			return #c:leader():get("/v1/cluster/members", 200).json.members == 3
		end)
		if c:leader().id == "n3" then c:leader():post("/v1/cluster/leader", { to = "n1" }, 200) end
		local old, leader = c.nodes[3], c:leader()
		old:stop()
		leader:post("/v1/topics", { name = "labelled", labels = { k = "v" } }, 201)
		local at = leader:status().applied_index
		old:start(as_release(37))
		harness.eventually(10000, "the older release stops", function()
			local status = old:is_up() and old:status()
			return status and status.stopped and status.stopped ~= "" and status
		end)
		assert.is_true(old:status().applied_index < at)
		refuse(old:get("/readyz"), 503, "not_ready")
		leader:post("/v1/topics", { name = "goes-on" }, 201)
		assert.are.equal(4, (old:wait_exit(20000)))
		assert.is_true(old:log():find("metastore: stopped applying raft entries", 1, true) ~= nil)

		old:start():wait_ready()
		c:settle()
		assert.is_true(old:get("/v1/topics/goes-on", 200).json.name == "goes-on")
		old:stop()
		old:start(as_release(37))
		assert.are.equal(3, (old:wait_exit(10000)))
		old:start():wait_ready()
		c:settle()
	end)
end)
