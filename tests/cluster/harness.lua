-- tests/cluster/harness.lua - clusters of real veenad processes on loopback.
--
--   local harness = require "cluster.harness"
--   harness.case("what it shows", { nodes = 3 }, function(c)
--     local leader = c:leader()
--     leader:post("/v1/topics", { name = "a", partitions = 3 }, 201)
--     c:settle()                                 -- all at the same index with the same digest
--   end)
--
-- A case gets a running cluster in a folder of its own and prints nothing unless it fails; then it shows what each
-- node logged last. At its end every process it started is gone and the folder too, whatever happened. Nothing here
-- sleeps for a guessed time: harness.eventually asks again until a deadline and says what it waited for.
--
-- VEENAD names the program, SCALE=full asks for full counts (harness.scaled).

local mime = require "mime"
local proc = require "proc"
local http = require "cluster.http"
local https = require "cluster.https"

local harness = { http = http, proc = proc }

local VEENAD = os.getenv("VEENAD") or "build/veenad"
local FULL = os.getenv("SCALE") == "full"

-- The short count in `make check`, the full one in `make faults`.
function harness.scaled(short, full)
	return FULL and full or short
end

-- Calls fn until it returns something true, and returns that; an error of its own is as good as "not yet". After
-- `ms` it raises, with the last reason fn gave (second result or error).
function harness.eventually(ms, what, fn)
	local deadline = proc.now_ms() + ms
	local why
	while true do
		local ok, value, reason = pcall(fn)
		if ok and value then return value end
		if not ok then why = value elseif reason then why = reason end
		if proc.now_ms() > deadline then
			error(string.format("not within %d ms: %s (%s)", ms, what, tostring(why)), 2)
		end
		proc.sleep_ms(10)
	end
end

-- ---- one node ----

local Node = {}
Node.__index = Node

function Node:argv(extra)
	local argv = {
		VEENAD, "--id", self.id, "--data", self.data, "--http", "127.0.0.1:" .. self.http_port,
		"--cluster", "127.0.0.1:" .. self.cluster_port,
	}
	local function add(list)
		for _, word in ipairs(list or {}) do argv[#argv + 1] = word end
	end
	if self.joiner then
		add { "--join", self.cluster.join }
	elseif self.cluster.peers then
		add { "--peers", self.cluster.peers }
	end
	add(self.cluster.auth_flags)
	add(self.cluster.flags)
	add(self.flags)
	add(extra)
	return argv
end

function Node:start(extra)
	assert(not self.pid, self.id .. " runs already")
	local argv = self:argv(extra)
	argv.out = self.log_path
	argv.env = self.env
	if self.fault_path then
		local library = assert(package.searchpath("faults", package.cpath))
		argv.env = { "LD_PRELOAD=" .. library, "TEST_FAULTS=" .. self.fault_path }
	end
	self.pid = assert(proc.spawn(argv))
	return self
end

-- Whether a child has ended within `ms`; then its exit code, or nil and the signal.
local function reap(pid, ms)
	local code, signal = proc.wait(pid, ms)
	if code == nil and type(signal) ~= "number" then return false end
	return true, code, signal
end

-- Waits for the process to end: exit code, or nil and the signal. Raises when it does not within `ms`.
function Node:wait_exit(ms)
	local ended, code, signal = reap(self.pid, ms or 10000)
	if not ended then error(self.id .. " did not end within " .. (ms or 10000) .. " ms", 2) end
	self.pid, self.paused = nil, nil
	return code, signal
end

-- The exit code, or minus the signal, if the process has ended by itself; nil while it runs.
function Node:ended()
	local ended, code, signal = reap(self.pid, 0)
	if not ended then return nil end
	self.pid, self.paused = nil, nil
	return code or -signal
end

function Node:signal(number)
	assert(proc.kill(self.pid, number))
end

-- An orderly stop: SIGTERM, and the exit code must be 0.
function Node:stop(ms)
	self:signal(proc.SIGTERM)
	local code, signal = self:wait_exit(ms or 20000)
	assert(code == 0, string.format("%s ended with code %s signal %s", self.id, code, signal))
end

function Node:kill()
	self:signal(proc.SIGKILL)
	self:wait_exit()
end

-- Stopped is each of its threads only a moment after the signal: until then it may still answer.
local function is_stopped(pid)
	local pipe = assert(io.popen(("cat /proc/%d/task/*/stat"):format(pid)))
	local text = pipe:read("a")
	pipe:close()
	for line in text:gmatch("[^\n]+") do
		if not line:match("%) T ") then return false end
	end
	return true
end

function Node:pause()
	self:signal(proc.SIGSTOP)
	harness.eventually(5000, self.id .. " is stopped", function() return is_stopped(self.pid) end)
	self.paused = true
end

function Node:resume()
	self:signal(proc.SIGCONT)
	self.paused = nil
end

-- What is wrong with the world of this node from now on (faults.c): { sync = "h", "e", "a" or "f",
-- cut = { node, ... } }; what is left out works. Its cluster was made with faults = true.
function Node:faults(what)
	local ports = {}
	for i, other in ipairs(what.cut or {}) do ports[i] = string.pack("<I2", other.cluster_port) end
	local file = assert(io.open(self.fault_path, "r+b"))
	local bytes = string.pack("<BB", (what.sync or "-"):byte(), #ports) .. table.concat(ports)
	assert(file:write(bytes .. ("\0"):rep(64 - #bytes)))
	assert(file:close())
end

function Node:is_up()
	return self.pid ~= nil and not self.paused
end

-- Throws the data directory away; the node must not run.
function Node:wipe()
	assert(not self.pid, self.id .. " runs")
	assert(os.execute("rm -rf '" .. self.data .. "'"))
end

function Node:log()
	local file = io.open(self.log_path, "rb")
	if not file then return "" end
	local text = file:read("a")
	file:close()
	return text
end

-- As http.request, over TLS where the cluster has certificates.
local function request(node, method, target, body, headers, timeout_s)
	local cacert = node.cluster.cacert
	if not cacert then return http.request(node.http_port, method, target, body, headers, timeout_s) end
	return https.request(node.http_port, method, target, body, headers, timeout_s, { cacert = cacert })
end

-- One request, on a connection of its own. With `want` (a number) another status is an error that shows the answer.
-- Where clients must say who they are, the user admin asks, unless `headers` name another or, with false, nobody.
local function ask(node, method, target, body, want, headers)
	headers = node.cluster:with_credentials(headers)
	local r, err = request(node, method, target, body, headers)
	if not r then error(string.format("%s: %s %s: %s", node.id, method, target, err), 3) end
	if want and r.status ~= want then
		error(string.format("%s: %s %s: %d instead of %d: %s", node.id, method, target, r.status, want, r.body), 3)
	end
	return r
end

function Node:get(target, want, headers) return ask(self, "GET", target, nil, want, headers) end
function Node:post(target, body, want, headers) return ask(self, "POST", target, body, want, headers) end
function Node:put(target, body, want, headers) return ask(self, "PUT", target, body, want, headers) end
function Node:patch(target, body, want, headers) return ask(self, "PATCH", target, body, want, headers) end
function Node:cluster_addr() return "127.0.0.1:" .. self.cluster_port end
function Node:delete(target, want, headers) return ask(self, "DELETE", target, nil, want, headers) end

function Node:status()
	return self:get("/v1/status", 200).json
end

function Node:is_ready()
	local r, err = request(self, "GET", "/readyz", nil, nil, 2)
	if not r then return false, err end
	return r.status == 200, r.body
end

function Node:wait_ready(ms)
	local how = harness.eventually(ms or 15000, self.id .. " is ready", function()
		if self:ended() then return "ended" end
		return self:is_ready()
	end)
	if how == "ended" then error(self.id .. " ended at its start; its log says why", 2) end
	return self
end

-- Every topic name, page after page.
function Node:topic_names()
	local names, token = {}, nil
	repeat
		local r = self:get("/v1/topics?limit=1000" .. (token and "&page_token=" .. token or ""), 200)
		for _, topic in ipairs(r.json.topics) do names[#names + 1] = topic.name end
		token = r.json.next_page_token
	until token == nil or token == ""
	return names
end

-- ---- the cluster ----

local Cluster = {}
Cluster.__index = Cluster

-- options: nodes (count, default 3), joiners (further nodes that are started by the test and come in by --join), flags
-- (list for every node), faults (true: Node:faults works), alone (true: --bootstrap instead of --peers), dir (where its
-- folder is made; the temporary directory), auth (the password of admin: clients must say who they are), tls (true:
-- certificates for clients and between nodes).
function harness.new(options)
	local members = options.nodes or 3
	local count = members + (options.joiners or 0)
	local ports = proc.free_ports(2 * count)
	local c = setmetatable({ nodes = {}, flags = options.flags, extra_pids = {},
		dir = assert(proc.mkdtemp((options.dir or os.getenv("TMPDIR") or "/tmp") .. "/veena-cluster-")) }, Cluster)
	local peers = {}
	for i = 1, count do
		local id = "n" .. i
		c.nodes[i] = setmetatable({
			id = id, cluster = c, http_port = ports[2 * i - 1], cluster_port = ports[2 * i],
			data = c.dir .. "/" .. id, log_path = c.dir .. "/" .. id .. ".log",
		}, Node)
		if options.faults then
			c.nodes[i].fault_path = c.dir .. "/" .. id .. ".faults"
			assert(assert(io.open(c.nodes[i].fault_path, "wb")):write(("\0"):rep(64))):close()
		end
		if i <= members then
			peers[i] = id .. "@127.0.0.1:" .. c.nodes[i].cluster_port
		else
			c.nodes[i].joiner = true
		end
	end
	c.auth_flags = { "--auth", "off" }
	if options.auth then c:use_auth(options.auth) end
	if options.tls then c:use_tls() end
	c.join = table.concat(peers, ","):gsub("n%d+@", "")
	if options.alone then
		c.flags = { "--bootstrap", table.unpack(options.flags or {}) }
	else
		c.peers = table.concat(peers, ",")
	end
	return c
end

-- The header of `credentials`, "name:password".
function harness.as(credentials)
	return { Authorization = "Basic " .. mime.b64(credentials) }
end

function Cluster:use_auth(password)
	local function file(name, text)
		local path = self.dir .. "/" .. name
		assert(assert(io.open(path, "wb")):write(text)):close()
		return path
	end
	self.credentials = "admin:" .. password
	self.auth_flags = {
		"--auth", "on", "--admin-password-file", file("admin-password", password .. "\n"),
		"--cluster-secret-file", file("secret", "only the nodes of this test know it\n"),
	}
end

local function run(format, ...)
	local command = string.format(format, ...)
	assert(os.execute(command), command)
end

-- An authority in the cluster's folder: NAME.pem with NAME.key.
function Cluster:make_ca(name)
	run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=%s"
		.. " -keyout %s/%s.key -out %s/%s.pem 2>/dev/null", name, self.dir, name, self.dir, name)
end

-- A certificate NAME.pem with NAME.key, signed by `ca`, for the names of `san` ("DNS:n1,IP:127.0.0.1"). Each file is
-- whole when it appears, so that one may be replaced while a node reads it.
function Cluster:make_cert(ca, name, san)
	run("cd %s && printf subjectAltName=%s >%s.ext && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
		.. " -nodes -subj /CN=%s -keyout %s.key.new -out %s.csr 2>/dev/null && openssl x509 -req -days 2 -in %s.csr"
		.. " -CA %s.pem -CAkey %s.key -CAcreateserial -extfile %s.ext -out %s.pem.new 2>/dev/null"
		.. " && mv %s.key.new %s.key && mv %s.pem.new %s.pem", self.dir, san, name, "cert", name, name, name, ca, ca, name,
		name, name, name, name, name)
end

-- The flags that make a node speak TLS to others by the certificate `name`.
function Cluster:tls_flags(name, ca)
	local path = self.dir .. "/"
	return { "--cluster-tls-cert", path .. name .. ".pem", "--cluster-tls-key", path .. name .. ".key",
		"--cluster-tls-ca", path .. (ca or "ca") .. ".pem" }
end

function Cluster:use_tls()
	self:make_ca("ca")
	self.cacert = self.dir .. "/ca.pem"
	self:make_cert("ca", "http", "IP:127.0.0.1,DNS:localhost")
	for _, node in ipairs(self.nodes) do
		self:make_cert("ca", node.id, "DNS:" .. node.id)
		node.flags = self:tls_flags(node.id)
	end
	self.flags = { "--tls-cert", self.dir .. "/http.pem", "--tls-key", self.dir .. "/http.key",
		table.unpack(self.flags or {}) }
end

function Cluster:with_credentials(headers)
	if not self.credentials or headers and headers.Authorization then return headers end
	local all = harness.as(self.credentials)
	for name, value in pairs(headers or {}) do all[name] = value or nil end -- false: not at all
	return all
end

function Cluster:start()
	for _, node in ipairs(self.nodes) do
		if not node.joiner then node:start() end
	end
	for _, node in ipairs(self.nodes) do
		if not node.joiner then node:wait_ready() end
	end
	return self
end

-- The row of GET /v1/cluster/servers that the leader shows for a server; nil while it has none.
function Cluster:server(id)
	for _, row in ipairs(self:leader():get("/v1/cluster/servers", 200).json) do
		if row.id == id then return row end
	end
end

-- The node that all running nodes call their leader.
function Cluster:leader(ms)
	return harness.eventually(ms or 10000, "all running nodes agree on a leader", function()
		local leader
		for _, node in ipairs(self.nodes) do
			if node:is_up() then
				local name = node:status().leader
				if leader and leader ~= name then return nil, leader .. " or " .. name end
				leader = name
			end
		end
		for _, node in ipairs(self.nodes) do
			if node.id == leader and node:is_up() and node:status().role == "leader" then return node end
		end
		return nil, "leader is " .. tostring(leader)
	end)
end

-- A running node that is not the leader.
function Cluster:follower()
	local leader = self:leader()
	for _, node in ipairs(self.nodes) do
		if node ~= leader and node:is_up() then return node end
	end
	error("no follower runs", 2)
end

-- Waits until all running nodes are at one index, and demands that their digests are equal there.
function Cluster:settle(ms)
	local diverged
	local digest = harness.eventually(ms or 20000, "all nodes at one index", function()
		local seen
		for _, node in ipairs(self.nodes) do
			local digest = node:is_up() and node:status().digest or seen
			seen = seen or digest
			if digest and digest.index ~= seen.index then
				return nil, string.format("%s is at %d, another at %d", node.id, digest.index, seen.index)
			end
			if digest and digest.value ~= seen.value then diverged = node.id end
		end
		return seen
	end)
	if diverged then error(diverged .. " has another digest at index " .. digest.index, 2) end
	return digest
end

-- A process besides the nodes (a load) that must not outlive the case.
function Cluster:spawn(argv)
	local pid = assert(proc.spawn(argv))
	self.extra_pids[#self.extra_pids + 1] = pid
	return pid
end

local function end_process(pid)
	proc.kill(pid, proc.SIGKILL)
	proc.wait(pid, 10000)
end

-- Cuts a node off from all others, both ways, or (on = false) heals the network.
function Cluster:isolate(node, on)
	local others = {}
	for _, other in ipairs(self.nodes) do
		if other ~= node then
			others[#others + 1] = other
			other:faults { cut = on and { node } or {} }
		end
	end
	node:faults { cut = on and others or {} }
end

function Cluster:close()
	for _, pid in ipairs(self.extra_pids) do
		if not reap(pid, 0) then end_process(pid) end
	end
	for _, node in ipairs(self.nodes) do
		if node.pid then end_process(node.pid) end
		node.pid = nil
	end
	os.execute("rm -rf '" .. self.dir .. "'")
end

local LOG_LINES_SHOWN = 40

function harness.show_logs(c)
	for _, node in ipairs(c.nodes) do
		local lines = {}
		for line in node:log():gmatch("[^\n]+") do lines[#lines + 1] = line end
		io.stderr:write("---- ", node.id, ": last lines of its log\n")
		for i = math.max(1, #lines - LOG_LINES_SHOWN + 1), #lines do io.stderr:write(lines[i], "\n") end
	end
end

-- One test with a cluster of its own. options.start = false leaves the start to the test.
function harness.case(name, options, fn)
	require("busted").it(name, function()
		local c = harness.new(options)
		local ok, err = xpcall(function()
			if options.start ~= false then c:start() end
			fn(c)
		end, function(e) return type(e) == "string" and debug.traceback(e, 2) or e end)
		if not ok then harness.show_logs(c) end
		c:close()
		if not ok then error(err, 0) end
	end)
end

return harness
