-- Streams of changes and requests under a key, while leaders die: no gap, no repeat, nothing done twice.

local socket = require "socket"
local harness = require "cluster.harness"
local http, proc = harness.http, harness.proc

local FOLLOWERS = harness.scaled(6, 50)
local SOAK_MS, KILL_EVERY_MS = harness.scaled(6000, 60000), harness.scaled(2500, 6000)

-- ---- one stream: HTTP/1.0, so that its lines come bare ----

local Stream = {}
Stream.__index = Stream

-- nil and the status when it is refused.
local function open_stream(node, query)
	local sock = socket.tcp()
	sock:settimeout(2)
	if not sock:connect("127.0.0.1", node.http_port) then
		sock:close()
		return nil, "unreachable"
	end
	sock:send(("GET /v1/watch?%s HTTP/1.0\r\n\r\n"):format(query))
	local status = (sock:receive("*l") or ""):match("^HTTP/1.1 (%d+)")
	repeat
		local line = sock:receive("*l")
	until not line or line == ""
	if status ~= "200" then
		sock:close()
		return nil, status or "closed"
	end
	sock:settimeout(0)
	return setmetatable({ sock = sock, rest = "" }, Stream)
end

-- The lines that have come; false behind them: it ended.
function Stream:lines()
	local bytes, err, part = self.sock:receive(1 << 20)
	self.rest = self.rest .. (bytes or part or "")
	local out = {}
	local at = 1
	while true do
		local stop = self.rest:find("\n", at, true)
		if not stop then break end
		out[#out + 1] = assert(http.decode(self.rest:sub(at, stop - 1)))
		at = stop + 1
	end
	self.rest = self.rest:sub(at)
	return out, err ~= "closed"
end

function Stream:wait(ms, what, fn)
	return harness.eventually(ms, what, function()
		for _, event in ipairs((self:lines())) do
			local found = fn(event)
			if found then return found end
		end
	end)
end

-- ---- followers: go on at another node behind the last whole index ----

local Follower = {}
Follower.__index = Follower

local function follower_new(c, number, since)
	return setmetatable({ c = c, at = number, whole = since, group = {}, seen = {}, lost = 0 }, Follower)
end

function Follower:take(event)
	if event.op == "error" or event.op == "progress" then
		if event.op == "progress" then self.whole = event.index end
		return
	end
	self.group[#self.group + 1] = ("%d %s %s %s %s"):format(event.index, event.op, event.domain, event.key,
		http.encode(event.record, { keyorder = { "name", "id" } }))
	assert(event.index > self.whole, "an index again")
	if not event.more then
		table.move(self.group, 1, #self.group, #self.seen + 1, self.seen)
		self.group, self.whole = {}, event.index
	end
end

function Follower:turn()
	if not self.stream then
		self.at = self.at % #self.c.nodes + 1
		self.group = {}
		if self.c.nodes[self.at]:is_up() then
			self.stream = open_stream(self.c.nodes[self.at], "domains=topics,assignments&since=" .. self.whole)
		end
		return
	end
	local events, open = self.stream:lines()
	for _, event in ipairs(events) do self:take(event) end
	if not open then
		self.stream.sock:close()
		self.stream, self.lost = nil, self.lost + 1
	end
end

-- ---- the soak ----

local function any_up(c)
	for _, node in ipairs(c.nodes) do
		if node:is_up() then return node end
	end
end

local function write_one(c, number, made)
	local node = any_up(c)
	local name = "t" .. number
	http.request(node.http_port, "POST", "/v1/topics", { name = name, partitions = 3 }, nil, 3)
	made[#made + 1] = name
	if #made > 8 then
		http.request(node.http_port, "DELETE", "/v1/topics/" .. table.remove(made, math.random(#made)), nil, nil, 3)
	end
end

local function soak(c, followers)
	local stop_at, kill_at = proc.now_ms() + SOAK_MS, proc.now_ms() + KILL_EVERY_MS // 2
	local number, made, dead, kills = 0, {}, nil, 0
	while proc.now_ms() < stop_at do
		for _, f in ipairs(followers) do f:turn() end
		number = number + 1
		write_one(c, number, made)
		if not dead and proc.now_ms() >= kill_at then
			dead = c:leader()
			dead:kill()
			kills, kill_at = kills + 1, proc.now_ms() + KILL_EVERY_MS
		elseif dead and proc.now_ms() >= kill_at - KILL_EVERY_MS // 2 then
			dead:start()
			dead = nil
		end
	end
	if dead then dead:start() end
	assert(kills > 0, "no leader was killed")
end

local function check_state(c, seen)
	local state = {}
	for _, line in ipairs(seen) do
		local op, key = line:match("^%d+ (%l+) topics (%S+)")
		if op then state[key] = op == "put" or nil end
	end
	for _, name in ipairs(c:leader():topic_names()) do
		assert.is_true(state[name], name .. " is there, and the stream does not say so")
		state[name] = nil
	end
	assert.is_nil(next(state))
end

describe("watch", function()
	harness.case("gives every change once, over reconnects and changes of leader", {}, function(c)
		local since = c:settle().index
		local followers = {}
		for i = 1, FOLLOWERS do followers[i] = follower_new(c, i, since) end
		soak(c, followers)
		local last = c:settle().index
		harness.eventually(15000, "all followers are at the end", function()
			local behind
			for i, f in ipairs(followers) do
				f:turn()
				if f.whole < last then behind = ("follower %d is at %d of %d"):format(i, f.whole, last) end
			end
			return not behind, behind
		end)
		local lost = 0
		for i, f in ipairs(followers) do
			lost = lost + f.lost
			assert.are.equal(#followers[1].seen, #f.seen)
			for k, line in ipairs(followers[1].seen) do assert.are.equal(line, f.seen[k], "follower " .. i) end
		end
		assert.is_true(lost > 0, "no follower had to go elsewhere")
		assert.is_true(#followers[1].seen > 100)
		check_state(c, followers[1].seen)
	end)

	harness.case("begins with the state, filters, and refuses", { faults = true }, function(c)
		local leader, other = c:leader(), c:follower()
		leader:post("/v1/topics", { name = "orders", partitions = 3, labels = { team = "a" } }, 201)
		leader:post("/v1/topics", { name = "mail", partitions = 3 }, 201)
		c:settle()
		local stream = assert(open_stream(other, "initial=true&domains=topics,assignments&prefix=orders"))
		local keys, index = {}, nil
		stream:wait(5000, "synced", function(event)
			if event.op == "synced" then return true end
			assert.is_true(event.more)
			assert.are.equal("put", event.op)
			index = index or event.index
			assert.are.equal(index, event.index)
			keys[#keys + 1] = event.key
			if event.domain == "topics" then assert.are.equal("a", event.record.labels.team) end
		end)
		assert.are.same({ "orders", "orders/0", "orders/1", "orders/2" }, keys)
		leader:delete("/v1/topics/mail", 204)
		leader:delete("/v1/topics/orders", 204)
		local gone = stream:wait(5000, "the delete", function(event)
			if event.op ~= "progress" then assert.is_truthy(event.key:find("^orders")) end
			return event.op == "delete" and event.domain == "topics" and event
		end)
		assert.are.equal("a", gone.record.labels.team)
		assert.is_nil(gone.more)
		assert.are.equal("behind", other:get("/v1/watch?since=99999999", 503).json.code)
		assert.are.equal("other_cluster", other:get("/v1/watch?cluster=0123456789abcdef", 409).json.code)
		assert.are.equal("domains", other:get("/v1/watch?domains=none", 400).json.field)
		assert.are.equal("since", other:get("/v1/watch?initial=true&since=1", 400).json.field)
		-- who lost its leader is no place to watch from
		c:isolate(other, true)
		local line = stream:wait(15000, "the error", function(event) return event.op == "error" and event end)
		assert.are.equal("stale", line.code)
		c:isolate(other, false)
	end)

	harness.case("closes who does not read, in bounded memory", {}, function(c)
		local node = c:leader()
		local function rss_kib()
			local file = assert(io.open(("/proc/%d/status"):format(node.pid)))
			local text = file:read("a")
			file:close()
			return tonumber(text:match("VmRSS:%s+(%d+)"))
		end
		local function closed()
			return tonumber(node:get("/metrics", 200).body:match('veena_watch_closed_total{reason="slow"} (%d+)'))
		end
		local before, slow = rss_kib(), {}
		for i = 1, 20 do slow[i] = assert(open_stream(node, "")) end
		local schema = { type = "object", description = ("x"):rep(60000) }
		for i = 1, 400 do
			node:post("/v1/topics", { name = "t" .. i, partitions = 3, schema = schema }, 201)
			node:delete("/v1/topics/t" .. i, 204)
			if i % 20 == 0 and closed() == #slow then break end
		end
		assert.are.equal(#slow, closed())
		-- 20 times 4 MiB would show; what is kept of changes is at most 16 MiB here, the rest is the database's pages
		assert.is_true(rss_kib() - before < 60 * 1024, ("grew by %d KiB"):format(rss_kib() - before))
		local line = slow[1]:wait(5000, "its last line", function(event) return event.op == "error" and event end)
		assert.are.equal("slow", line.code)
		assert.is_nil(line.more)
	end)
end)

describe("an Idempotency-Key", function()
	harness.case("has one answer, from every leader and after restarts", {}, function(c)
		local follower, key = c:follower(), { ["Idempotency-Key"] = "k-1" }
		local first = follower:post("/v1/topics", { name = "orders", partitions = 3 }, 201, key)
		assert.is_nil(first.headers["idempotency-replayed"])
		local function again()
			return any_up(c):post("/v1/topics", { name = "orders", partitions = 3 }, 201, key)
		end
		local function check()
			local r = again()
			assert.are.equal(first.body, r.body)
			assert.are.equal(first.headers["x-veena-index"], r.headers["x-veena-index"])
			assert.are.equal("true", r.headers["idempotency-replayed"])
		end
		check()
		local dead = c:leader()
		dead:kill()
		c:leader()
		check()
		dead:start()
		c:settle()
		for _, node in ipairs(c.nodes) do node:stop() end
		for _, node in ipairs(c.nodes) do node:start() end
		c:leader()
		check()
		local other = follower:post("/v1/topics", { name = "mail", partitions = 3 }, 422, key)
		assert.are.equal("idempotency_mismatch", other.json.code)
		-- what was refused is asked anew
		follower:post("/v1/topics", { name = "orders", partitions = 3 }, 409, { ["Idempotency-Key"] = "k-2" })
		follower:delete("/v1/topics/orders", 204, { ["Idempotency-Key"] = "k-3" })
		follower:delete("/v1/topics/orders", 204, { ["Idempotency-Key"] = "k-3" })
		follower:post("/v1/topics", { name = "orders", partitions = 3 }, 201, { ["Idempotency-Key"] = "k-2" })
		c:settle()
	end)
end)
