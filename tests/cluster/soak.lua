-- tests/cluster/soak.lua - three nodes at half of what they can do, for SECONDS: is anything of them growing?
--
--   lua5.4 tests/cluster/soak.lua SECONDS           (make soak T=3600)
--
-- Memory, descriptors, the database's file and the log's files of each node are sampled; their slopes are printed, and
-- one that is no noise is a failure (exit status 1).

local harness = require "cluster.harness"
local slopes = require "cluster.slopes"
local proc = harness.proc

local SECONDS = assert(tonumber(arg[1]), "usage: soak.lua SECONDS")
local CLIENTS, CALIBRATE_MS, SAMPLES = 4, 4000, 120
local MIB = 1 << 20

local function output_of(command)
	local pipe = assert(io.popen(command))
	local text = pipe:read("a")
	pipe:close()
	return text
end

-- What is looked at, and by how much it may seem to grow over the whole time: noise, and steps of files.
local MEASURES = {
	{ name = "rss", room = 16 * MIB, unit = MIB, of = function(node)
		local file = assert(io.open(("/proc/%d/status"):format(node.pid)))
		local kib = file:read("a"):match("VmRSS:%s*(%d+)")
		file:close()
		return tonumber(kib) * 1024
	end },
	{ name = "fds", room = 8, unit = 1, of = function(node)
		return select(2, output_of(("ls /proc/%d/fd"):format(node.pid)):gsub("\n", ""))
	end },
	{ name = "fsm.mdb", room = 8 * MIB, unit = MIB, of = function(node)
		return tonumber(output_of("stat -c %s " .. node.data .. "/fsm.mdb"))
	end },
	{ name = "wal", room = 24 * MIB, unit = MIB, of = function(node)
		return tonumber(output_of("du -sb " .. node.data .. "/wal"):match("%d+"))
	end },
}

local function start_clients(c, round, rate)
	local ports, clients = {}, {}
	for i, node in ipairs(c.nodes) do ports[i] = tostring(node.http_port) end
	for i = 1, CLIENTS do
		local out = ("%s/churn-%s-%d"):format(c.dir, round, i)
		clients[i] = { out = out, pid = c:spawn { "lua5.4", "tests/cluster/churn.lua", round .. i, out,
			tostring(rate / CLIENTS), table.unpack(ports) } }
	end
	return clients
end

local function stop_clients(clients)
	local count = 0
	for _, client in ipairs(clients) do
		proc.kill(client.pid, proc.SIGKILL)
		proc.wait(client.pid, 5000)
		count = count + tonumber(output_of("stat -c %s " .. client.out))
	end
	return count
end

local function soak(c)
	local clients = start_clients(c, "all", 0)
	proc.sleep_ms(CALIBRATE_MS)
	local capacity = stop_clients(clients) * 1000 / CALIBRATE_MS
	assert(capacity > 0, "no write was answered")
	clients = start_clients(c, "half", capacity / 2)
	local begun, series = proc.now_ms(), {}
	local pause_ms = math.max(200, SECONDS * 1000 // SAMPLES)
	while proc.now_ms() - begun < SECONDS * 1000 do
		for _, node in ipairs(c.nodes) do
			for _, m in ipairs(MEASURES) do
				local key = node.id .. " " .. m.name
				series[key] = series[key] or { measure = m }
				table.insert(series[key], { (proc.now_ms() - begun) / 1000, m.of(node) })
			end
		end
		proc.sleep_ms(pause_ms)
	end
	local done = stop_clients(clients)
	c:settle()
	print(("capacity %.0f writes/s; then %.0f/s for %d s"):format(capacity, done / SECONDS, SECONDS))
	local failed = false
	for _, node in ipairs(c.nodes) do
		for _, m in ipairs(MEASURES) do
			local s = series[node.id .. " " .. m.name]
			local grows, by = slopes.judge(s, m.room)
			print(("%s %-8s last %8.2f  slope %+9.3f an hour  growth %+8.3f%s"):format(node.id, m.name, s[#s][2] / m.unit,
				slopes.fit(slopes.settled(s)) * 3600 / m.unit, by / m.unit, grows and "  GROWS" or ""))
			failed = failed or grows
		end
	end
	return not failed
end

local c = harness.new { flags = { "--snapshot-entries", "2000", "--snapshot-interval-s", "5" } }
local ok, result = xpcall(function()
	c:start()
	return soak(c)
end, debug.traceback)
if not ok then
	harness.show_logs(c)
	io.stderr:write(tostring(result), "\n")
end
c:close()
os.exit(ok and result)
