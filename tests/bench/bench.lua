-- tests/bench/bench.lua - what veena costs over bounds that do nothing else, in one interleaved run.
--
-- Reads: GET of one topic of 10,000 at a follower, against libev + LMDB alone (bare_read). Writes: durable alters,
-- each of one topic of 10,000, against HTTP + a synced append here and on one of two peers (bare_write), at 1 and at
-- 64 connections. Both sides run on this machine at the same time and are asked in turns, so that whatever else the
-- machine does meets both; a figure is the median of its turns. What counts is the ratio.
--
-- BENCH names the folder of the programs, VEENAD the daemon. Everything is on loopback and ends by itself; files go
-- below BENCH, since /tmp may be memory, which syncs for nothing.

local proc = require "proc"
local harness = require "cluster.harness"

local BENCH = assert(os.getenv("BENCH"), "run me by `make bench`")
local NAMES, TURNS, SECONDS = 10000, 5, 1.5
local BODY = '{"retention_ms":3600000#}'

-- One run of the load client; its figures. A failure of it is a failure of the bench.
local function load(port, connections, how, n, method, target, body)
	local command = string.format("%s/load %d %d %s %s %d %s '%s' %s", BENCH, port, connections, how, n, NAMES, method,
		target, body and "'" .. body .. "'" or "")
	local pipe = assert(io.popen(command, "r"))
	local line = pipe:read("a")
	assert(pipe:close(), "failed: " .. command)
	local answers, seconds, rate, p50, p99 = line:match("^(%S+) (%S+) (%S+) (%S+) (%S+)")
	return { answers = tonumber(answers), seconds = tonumber(seconds), rate = tonumber(rate), p50 = tonumber(p50),
		p99 = tonumber(p99) }
end

local function median(runs, field)
	local values = {}
	for i, run in ipairs(runs) do values[i] = run[field] end
	table.sort(values)
	return values[(#values + 1) // 2]
end

-- Asks both sides in turns and prints the two lines and their ratio.
local function compare(title, connections, method, target, body, ours, bound)
	local sides = { { name = "veena", port = ours, runs = {} }, { name = "bound", port = bound, runs = {} } }
	for turn = 1, TURNS do
		for i = 1, 2 do
			-- The one that goes first changes, so that neither always finds the caches the other left.
			local side = sides[(turn + i) % 2 + 1]
			side.runs[turn] = load(side.port, connections, "seconds", SECONDS, method, target, body)
		end
	end
	print(string.format("%s, %d connection%s", title, connections, connections > 1 and "s" or ""))
	for _, side in ipairs(sides) do
		side.rate = median(side.runs, "rate")
		side.p50 = median(side.runs, "p50")
		print(string.format("  %-6s %9.0f /s   p50 %6.0f us   p99 %6.0f us", side.name, side.rate, side.p50,
			median(side.runs, "p99")))
	end
	print(string.format("  ratio  %9.2f of the bound's rate, %.2f times its p50", sides[1].rate / sides[2].rate,
		sides[1].p50 / sides[2].p50))
	io.stdout:flush()
end

local function wait_listening(port)
	harness.eventually(20000, "a bound listens", function()
		local conn, err = harness.http.connect(port, 1)
		if conn then conn:close() end
		return conn ~= nil, err
	end)
end

-- The bare programs, each in a folder of its own; the ports to ask for reads and for writes.
local function start_bounds(c, value_path)
	local ports = proc.free_ports(4)
	local read, write, peer1, peer2 = table.unpack(ports)
	local function spawn(program, ...)
		local argv = { BENCH .. "/" .. program, ... }
		for i, word in ipairs(argv) do argv[i] = tostring(word) end
		argv.out = c.dir .. "/bounds.log"
		c:spawn(argv)
	end
	local function dir(name)
		assert(os.execute("mkdir -p '" .. c.dir .. "/" .. name .. "'"))
		return c.dir .. "/" .. name
	end
	spawn("bare_read", read, dir("read"), NAMES, value_path)
	spawn("bare_write", "peer", peer1, dir("peer1"))
	spawn("bare_write", "peer", peer2, dir("peer2"))
	spawn("bare_write", "leader", write, dir("leader"), peer1, peer2, value_path)
	wait_listening(read)
	wait_listening(write)
	return read, write
end

local function main(c)
	c:start()
	local leader, follower = c:leader(), c:follower()
	local fill = load(leader.http_port, 64, "count", NAMES, "POST", "/v1/topics", '{"name":"bench-%","partitions":3}')
	print(string.format("%d topics created on three nodes in %.1f s (%.0f /s, 64 connections)", fill.answers, fill.seconds,
		fill.rate))
	c:settle()

	-- The bounds answer with what veena answers, so that the bytes are the same.
	local value_path = c.dir .. "/value"
	local value = assert(io.open(value_path, "wb"))
	value:write(follower:get("/v1/topics/bench-1", 200).body)
	value:close()
	local read, write = start_bounds(c, value_path)

	compare("local GET of one topic of 10,000", 64, "GET", "/v1/topics/bench-%", nil, follower.http_port, read)
	compare("local GET of one topic of 10,000", 1, "GET", "/v1/topics/bench-%", nil, follower.http_port, read)
	compare("durable alter of one topic of 10,000", 1, "PATCH", "/v1/topics/bench-%", BODY, leader.http_port, write)
	compare("durable alter of one topic of 10,000", 64, "PATCH", "/v1/topics/bench-%", BODY, leader.http_port, write)
	c:settle()
end

-- Decisions of the control plane over so many partitions; goals: a plan under 50 ms, an idle pass under 1 ms, and no
-- more memory for more partitions.
local function plans()
	for _, partitions in ipairs { 10000, tonumber(os.getenv("PLAN_PARTITIONS")) or 1000000 } do
		local pipe = assert(io.popen(string.format("%s/plan %d 100", BENCH, partitions), "r"))
		print(string.format("the control plane, %d partitions on 100 members", partitions))
		for line in pipe:lines() do
			local name, median_us, worst_us, kib = line:match("^(%S+) (%S+) (%S+) (%S+)$")
			local what = { idle = "a pass that moves nothing", plan = "a plan of 8 moves, one member added",
				place = "owners for 108 partitions" }
			print(string.format("  %-40s median %8.2f ms  worst %8.2f ms  %6d KiB", what[name], median_us / 1000,
				worst_us / 1000, kib))
		end
		assert(pipe:close(), "failed: plan")
	end
end

plans()
os.execute("mkdir -p '" .. BENCH .. "/data'")
local c = harness.new { nodes = 3, flags = { "--http-threads", "1" }, dir = BENCH .. "/data" }
local ok, err = xpcall(main, debug.traceback, c)
if not ok then harness.show_logs(c) end
c:close()
if not ok then
	io.stderr:write(err, "\n")
	os.exit(1)
end
