-- tests/cluster/registers.lua - clients of one register (register.lua) while a cluster suffers: what they were told.

local harness = require "cluster.harness"
local http, proc = harness.http, harness.proc

local registers = {}

-- Clients over all nodes: counts { write =, read = }; `consistency` is the readers'.
function registers.start(c, counts, consistency)
	local ports, clients = {}, { paths = {}, writers = counts.write }
	for i, node in ipairs(c.nodes) do ports[i] = tostring(node.http_port) end
	for _, kind in ipairs { "write", "read" } do
		for number = 1, counts[kind] do
			local path = ("%s/%s-%d.ops"):format(c.dir, kind, number)
			clients.paths[#clients.paths + 1] = path
			clients[#clients + 1] = c:spawn { "lua5.4", "tests/cluster/register.lua", kind, tostring(number), consistency,
				path, table.unpack(ports) }
		end
	end
	return clients
end

function registers.stop(clients)
	for _, pid in ipairs(clients) do
		proc.kill(pid, proc.SIGKILL)
		proc.wait(pid, 5000)
	end
end

-- The register itself, with its first write.
function registers.create(c)
	local begun = proc.now_ms()
	c:leader():post("/v1/topics", { name = "register", partitions = 3, retention_ms = 3600000 }, 201)
	local created = { kind = "write", value = 3600000, sent = begun, answered = proc.now_ms() }
	c:settle()
	return created
end

-- What they were told, and how many of each kind. A writer may be killed before it has written down its last write:
-- that one is known only from those who read its value.
function registers.collect(clients, created)
	local operations, counts, written = { created }, { write = 0, read = 0 }, { [created.value] = true }
	local function add(op)
		operations[#operations + 1] = op
		counts[op.kind] = counts[op.kind] + 1
		if op.kind == "write" then written[op.value] = true end
	end
	for _, path in ipairs(clients.paths) do
		for line in io.lines(path) do
			local kind, value, sent, answered = line:match("^(%l+) (%d+) ([%d.]+) ([%d.inf]+)$")
			if kind then
				add { kind = kind, value = math.tointeger(tonumber(value)), sent = tonumber(sent),
					answered = answered == "inf" and math.huge or tonumber(answered) }
			end
		end
	end
	local lost = 0
	for i = 1, #operations do
		local value = operations[i].value
		if not written[value] then
			lost = lost + 1
			add { kind = "write", value = value, sent = created.sent, answered = math.huge }
		end
	end
	assert(lost <= clients.writers, lost .. " values were read that no writer knows of")
	return operations, counts
end

-- Things that happen to a cluster made with faults = true; each ends healed.
registers.nemeses = {
	pause = function(_, node, ms)
		node:pause()
		proc.sleep_ms(ms)
		node:resume()
	end,
	cut = function(c, node, ms)
		c:isolate(node, true)
		proc.sleep_ms(ms)
		c:isolate(node, false)
	end,
	transfer = function(c, node)
		http.request(c.nodes[math.random(#c.nodes)].http_port, "POST", "/v1/cluster/leader", { to = node.id }, nil, 2)
		proc.sleep_ms(200)
	end,
	-- Only what one node hears from one other is lost.
	half_cut = function(c, node, ms)
		node:faults { cut = { c.nodes[node == c.nodes[1] and 2 or 1] } }
		proc.sleep_ms(ms)
		node:faults {}
	end,
	slow_disk = function(_, node, ms)
		node:faults { sync = "h" }
		proc.sleep_ms(ms)
		node:faults {}
	end,
	kill = function(_, node, ms)
		node:kill()
		proc.sleep_ms(ms // 2)
		node:start()
		node:wait_ready(30000)
	end,
	kill_all = function(c)
		for _, node in ipairs(c.nodes) do node:kill() end
		for _, node in ipairs(c.nodes) do node:start() end
		for _, node in ipairs(c.nodes) do node:wait_ready(30000) end
	end,
}

return registers
