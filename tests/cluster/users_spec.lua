-- Users on real processes: who may come in, what they may do, on every node alike, and what it costs the others.

local harness = require "cluster.harness"
local http, proc = harness.http, harness.proc
local as = harness.as

local ADMIN = "s3cret of the test"
local NOBODY = { Authorization = false }
local THREE = { nodes = 3, auth = ADMIN }
local ONE = { nodes = 1, alone = true, auth = ADMIN }
local ONE_STOPPED = { nodes = 1, alone = true, start = false }

local function make_user(node, name, password, ...)
	local grants = {}
	for i, grant in ipairs { ... } do
		local action, patterns = grant:match("^(%a+):?(.*)$")
		grants[i] = { action = action, patterns = patterns ~= "" and { patterns } or nil }
	end
	return node:post("/v1/users", { username = name, password = password, grants = grants }, 201)
end

-- The lines of a node's log that are of this event.
local function lines_of(node, event)
	local found = {}
	for line in node:log():gmatch("[^\n]+") do
		if line:find(" " .. event .. " ", 1, true) then found[#found + 1] = line end
	end
	return found
end

local function percentile(times, p)
	table.sort(times)
	return times[math.max(1, math.ceil(#times * p))]
end

describe("a node asks who is there", function()
	harness.case("on every path but three", ONE, function(c)
		local node = c.nodes[1]
		for _, path in ipairs { "/v1/topics", "/v1/topics/a", "/v1/status", "/v1/users", "/v1/cluster/members",
			"/", "/nothing", "/metrics/x" } do
			local r = node:get(path, 401, NOBODY)
			assert.equal("unauthenticated", r.json.code)
			assert.matches("^Basic realm=", r.headers["www-authenticate"])
		end
		-- before the body, its type or the method are looked at
		assert.equal(401, node:post("/v1/topics", "{", nil, NOBODY).status)
		assert.equal(401, node:patch("/v1/status", "{}", nil, NOBODY).status)
		for _, path in ipairs { "/healthz", "/readyz", "/metrics" } do node:get(path, 200, NOBODY) end
		node:get("/nothing", 404)
		node:get("/v1/topics", 200)
	end)

	harness.case("and knows the user of its password file", ONE, function(c)
		local node = c.nodes[1]
		local users = node:get("/v1/users", 200)
		assert.equal(1, #users.json)
		assert.equal("admin", users.json[1].username)
		assert.is_true(users.json[1].root)
		assert.is_nil(users.json[1].password_hash)
		node:get("/v1/users", 401, as("admin:wrong"))
		assert.is_nil(node:log():find(ADMIN, 1, true))
	end)

	harness.case("and makes a password where none was given, and says it once", ONE_STOPPED, function(c)
		local node = c.nodes[1]
		c.auth_flags = { "--auth", "on" }
		node:start():wait_ready()
		local made = harness.eventually(5000, "the password is in the log", function()
			return node:log():match("auth%.admin_made .-password=(%S+)")
		end)
		assert.equal(32, #made)
		node:get("/v1/users", 200, as("admin:" .. made))
		node:stop()
		node:start():wait_ready()
		node:get("/v1/users", 200, as("admin:" .. made))
		local _, count = node:log():gsub("password=", "")
		assert.equal(1, count)
	end)

	harness.case("and refuses a sixth wrong password for a while", ONE, function(c)
		local node = c.nodes[1]
		make_user(node, "ann", "right")
		make_user(node, "bob", "right")
		node:get("/v1/topics", 200, as("ann:right"))
		for _ = 1, 5 do node:get("/v1/topics", 401, as("bob:wrong")) end
		local r = node:get("/v1/topics", 429, as("bob:wrong"))
		assert.equal("throttled", r.json.code)
		local wait = tonumber(r.headers["retry-after"])
		assert.is_true(wait >= 1 and wait <= 12)
		node:get("/v1/topics", 429, as("bob:right"))
		for _ = 1, 5 do node:get("/v1/topics", 401, as("ann:wrong")) end
		node:get("/v1/topics", 200, as("ann:right")) -- known already
		node:get("/v1/topics", 200)
	end)
end)

describe("a cluster with users", function()
	-- Each request of each user gets the same answer from the leader and through a follower (F48).
	harness.case("answers alike on leader and follower", THREE, function(c)
		local leader = c:leader()
		local follower = c:follower()
		make_user(follower, "boss", "pw", "admin")
		make_user(leader, "ann", "pw", "create:a*")
		make_user(follower, "watcher", "pw", "observe")
		leader:post("/v1/topics", { name = "a1" }, 201, as("ann:pw"))
		follower:post("/v1/topics", { name = "a2" }, 201, as("ann:pw"))
		leader:post("/v1/topics", { name = "x1" }, 201)
		c:settle()
		local requests = {
			{ "POST", "/v1/topics", { name = "a1" }, ann = 409, watcher = 403, boss = 409 },
			{ "POST", "/v1/topics", { name = "x2", partitions = 1 }, ann = 400, watcher = 400, boss = 400 },
			{ "POST", "/v1/topics", { name = "x1" }, ann = 403, watcher = 403, boss = 409 },
			{ "PATCH", "/v1/topics/a1", { retention_ms = 7200000 }, ann = 200, watcher = 403, boss = 200 },
			{ "PATCH", "/v1/topics/x1", { retention_ms = 7200000 }, ann = 403, watcher = 403, boss = 200 },
			{ "DELETE", "/v1/topics/x1", nil, ann = 403, watcher = 403 },
			{ "DELETE", "/v1/topics/nothing", nil, ann = 404, watcher = 404, boss = 404 },
			{ "GET", "/v1/topics/x1", nil, ann = 403, watcher = 200, boss = 200 },
			{ "GET", "/v1/topics", nil, ann = 200, watcher = 200, boss = 200 },
			{ "GET", "/v1/assignments", nil, ann = 403, watcher = 200, boss = 200 },
			{ "GET", "/v1/users", nil, ann = 403, watcher = 403, boss = 200 },
			{ "GET", "/v1/log", nil, ann = 403, watcher = 403 },
			{ "POST", "/v1/users", { username = "boss", password = "x" }, ann = 403, watcher = 403, boss = 409 },
			{ "POST", "/v1/users", { username = "n", password = "x", grants = { { action = "admin" } } },
				ann = 403, watcher = 403, boss = 403 },
			{ "PUT", "/v1/users/ann/grants", { grants = { { action = "fly" } } }, ann = 400, boss = 400 },
			{ "PUT", "/v1/users/boss/grants", { grants = {} }, ann = 403, boss = 403 },
			{ "PUT", "/v1/users/admin/grants", { grants = {} }, ann = 403, boss = 403 },
			{ "DELETE", "/v1/users/admin", nil, ann = 403, boss = 403 },
			{ "PUT", "/v1/users/admin/password", { new_password = "x" }, ann = 403, boss = 403 },
			{ "PUT", "/v1/users/ann/password", { new_password = "x" }, ann = 403, watcher = 403 },
			{ "PUT", "/v1/users/nobody/password", { new_password = "x" }, ann = 403, boss = 404 },
			{ "DELETE", "/v1/cluster/servers/n9", nil, ann = 403, watcher = 403, boss = 404 },
			{ "POST", "/v1/cluster/leader", { to = "n9" }, ann = 403, watcher = 403, boss = 404 },
		}
		-- indexes and the topics' own ids apart
		local function shown(r)
			return r.status .. " " .. r.body:gsub('"index":%d+', ""):gsub('"created_at":%d+', "")
		end
		for _, rq in ipairs(requests) do
			for _, user in ipairs { "ann", "watcher", "boss" } do
				if rq[user] then
					local headers = as(user .. ":pw")
					local direct = http.request(leader.http_port, rq[1], rq[2], rq[3], headers)
					local through = http.request(follower.http_port, rq[1], rq[2], rq[3], headers)
					assert.equal(rq[user], direct.status, user .. " " .. rq[1] .. " " .. rq[2] .. ": " .. direct.body)
					assert.equal(shown(direct), shown(through))
				end
			end
		end
		-- what a user sees in a list is what it may read
		local seen = {}
		for _, topic in ipairs(follower:get("/v1/topics", 200, as("ann:pw")).json.topics) do
			seen[#seen + 1] = topic.name .. "/" .. topic.owner
		end
		assert.same({ "a1/ann", "a2/ann" }, seen)
	end)

	harness.case("forgets a changed password at once, on every node", THREE, function(c)
		local follower = c:follower()
		make_user(follower, "ann", "old", "create:*")
		c:settle()
		for _, node in ipairs(c.nodes) do node:get("/v1/topics", 200, as("ann:old")) end
		follower:put("/v1/users/ann/password", { new_password = "new", current_password = "wrong" }, 403, as("ann:old"))
		follower:put("/v1/users/ann/password", { new_password = "new", current_password = "old" }, 204, as("ann:old"))
		follower:get("/v1/topics", 401, as("ann:old")) -- it has read its own write
		c:settle()
		for _, node in ipairs(c.nodes) do
			node:get("/v1/topics", 401, as("ann:old"))
			node:get("/v1/topics", 200, as("ann:new"))
			node:post("/v1/topics", { name = "of-" .. node.id }, 201, as("ann:new"))
		end
		-- grants count at once too, and cost nobody a new login
		c:leader():put("/v1/users/ann/grants", { grants = {} }, 200)
		c:settle()
		for _, node in ipairs(c.nodes) do
			node:post("/v1/topics", { name = "more" }, 403, as("ann:new"))
			node:get("/v1/topics/of-n1", 200, as("ann:new")) -- still its owner
		end
	end)

	harness.case("takes a deleted user's name off its topics", THREE, function(c)
		local follower = c:follower()
		make_user(follower, "ann", "pw", "create:*")
		follower:post("/v1/topics", { name = "hers" }, 201, as("ann:pw"))
		follower:delete("/v1/users/ann", 204)
		c:settle()
		make_user(follower, "ann", "pw")
		c:settle()
		for _, node in ipairs(c.nodes) do
			assert.is_nil(node:get("/v1/topics/hers", 200).json.owner)
			node:delete("/v1/topics/hers", 403, as("ann:pw"))
		end
	end)

	harness.case("keeps its users over a restart of all nodes", THREE, function(c)
		make_user(c:leader(), "ann", "pw", "observe")
		c:settle()
		for _, node in ipairs(c.nodes) do node:kill() end
		for _, node in ipairs(c.nodes) do node:start() end
		for _, node in ipairs(c.nodes) do
			node:wait_ready()
			node:get("/v1/status", 200, as("ann:pw"))
			node:get("/v1/users", 403, as("ann:pw"))
		end
		c:settle()
	end)

	-- Who, what, from where, what came of it: on the leader, wherever the client spoke to.
	harness.case("writes down who changed what", THREE, function(c)
		local leader, follower = c:leader(), c:follower()
		make_user(follower, "ann", "pw", "create:a*")
		follower:post("/v1/topics", { name = "a" }, 201, as("ann:pw"))
		follower:post("/v1/topics", { name = "b" }, 403, as("ann:pw"))
		local log = harness.eventually(5000, "the lines are written", function()
			local lines = lines_of(leader, "audit")
			return lines[#lines] and lines[#lines]:find("denied") and table.concat(lines, "\n")
		end)
		local from = "peer=127%.0%.0%.1:%d+ origin=" .. follower.id
		assert.matches('op=user%.create actor="admin" target="ann" ' .. from .. " outcome=ok status=201", log)
		assert.matches('op=topic%.create actor="ann" target="a" ' .. from .. " outcome=ok status=201", log)
		assert.matches('op=topic%.create actor="ann" target="b" ' .. from .. " outcome=denied status=403", log)
		for _, node in ipairs(c.nodes) do assert.is_nil(node:log():find("$2", 1, true)) end
	end)
end)

describe("passwords are hashed beside the work", function()
	-- F46: a hundred wrong logins at once delay neither reads nor heartbeats.
	harness.case("so wrong logins do not delay others", THREE, function(c)
		local leader = c:leader()
		local USERS, LOGINS, READS = 20, 100, 400
		for i = 1, USERS do make_user(leader, "u" .. i, "right") end
		local conn = assert(http.connect(leader.http_port))
		local headers = as(c.credentials)
		local function reads()
			local times = {}
			for i = 1, READS do
				local began = proc.now_ms()
				local r = assert(conn:request("GET", "/v1/topics", nil, headers))
				assert.equal(200, r.status)
				times[i] = proc.now_ms() - began
			end
			return times
		end
		local before = percentile(reads(), 0.99)
		local term = leader:status().term
		local logins = {}
		for i = 1, LOGINS do
			logins[i] = assert(http.connect(leader.http_port))
			assert(logins[i]:send(http.format("GET", "/v1/topics", nil,
				as(("u%d:wrong%d"):format(i % USERS + 1, i)))))
		end
		local during = percentile(reads(), 0.99)
		local wrong, throttled = 0, 0
		for _, login in ipairs(logins) do
			local r = assert(login:receive("GET"))
			wrong = wrong + (r.status == 401 and 1 or 0)
			throttled = throttled + (r.status == 429 and 1 or 0)
			login:close()
		end
		conn:close()
		print(("# p99 of a read: %.1f ms before, %.1f ms during %d wrong logins (%d refused at once)")
			:format(before, during, LOGINS, throttled))
		assert.equal(LOGINS, wrong + throttled)
		assert.is_true(throttled > 0 and wrong > 0)
		assert.is_true(during < 50, "a bcrypt stood in the way of a read")
		assert.equal(term, leader:status().term)
	end)
end)
