-- Everything at once: nodes are killed, frozen, cut off and slowed down in an order drawn from a seed, while clients
-- of all kinds go on over all nodes; what they were told must fit together. `make chaos T=600` lets it last.

local harness = require "cluster.harness"
local history = require "cluster.history"
local linear = require "cluster.linear"
local registers = require "cluster.registers"
local sessions = require "cluster.sessions"
local slopes = require "cluster.slopes"
local watches = require "cluster.watches"
local proc = harness.proc

local SECONDS = tonumber(os.getenv("CHAOS_S")) or harness.scaled(12, 600)
local SEED = tonumber(os.getenv("CHAOS_SEED")) or os.time()
local KINDS = { "pause", "cut", "half_cut", "transfer", "slow_disk", "kill", "kill_all" }

local function lines_of(path)
	local lines = {}
	for line in io.lines(path) do lines[#lines + 1] = line end
	return lines
end

local function start_others(c)
	local others = { sessions = {}, watchers = {} }
	local ports = {}
	for i, node in ipairs(c.nodes) do ports[i] = tostring(node.http_port) end
	for i = 1, 2 do
		local session, watcher = c.dir .. "/session-" .. i, c.dir .. "/watcher-" .. i
		others.sessions[i], others.watchers[i] = session, watcher
		others[#others + 1] = c:spawn { "lua5.4", "tests/cluster/session.lua", "session-" .. i, session,
			out = session .. ".err", table.unpack(ports) }
		others[#others + 1] = c:spawn { "lua5.4", "tests/cluster/watcher.lua", watcher, out = watcher .. ".err",
			table.unpack(ports) }
	end
	return others
end

-- The watchers catch up while nothing changes any more.
local function check_watchers(c, paths)
	local topics, digest, total = {}, c:settle(), 0
	for _, name in ipairs(c.nodes[1]:topic_names()) do topics[name] = true end
	for _, path in ipairs(paths) do
		local broken, events
		harness.eventually(15000, "a watcher is at the end", function()
			broken, events = watches.check(lines_of(path), topics, digest.index)
			return broken ~= "behind", path
		end)
		assert(not broken, broken)
		total = total + events
	end
	return total
end

describe("a cluster in chaos", function()
	harness.case("keeps every promise (F01 F06 F15 F21 F31 F32 F33)", { faults = true }, function(c)
		math.randomseed(SEED)
		local created = registers.create(c)
		local load = history.start_load(c, "load")
		local clients = registers.start(c, { write = 2, read = 2 }, "strong")
		local others = start_others(c)
		local begun, strikes = proc.now_ms(), {}
		while proc.now_ms() - begun < SECONDS * 1000 do
			local kind = KINDS[math.random(#KINDS)]
			strikes[kind] = (strikes[kind] or 0) + 1
			registers.nemeses[kind](c, c.nodes[math.random(#c.nodes)], math.random(300, 1200))
			proc.sleep_ms(math.random(50, 400))
		end
		for _, node in ipairs(c.nodes) do node:wait_ready(30000) end
		c:leader(15000)
		proc.sleep_ms(500) -- clients that gave up come again
		load.stop()
		registers.stop(clients)
		for i = 1, #others, 2 do
			proc.kill(others[i], proc.SIGKILL)
			proc.wait(others[i], 5000)
		end
		c:settle()

		local operations, counts = registers.collect(clients, created)
		local broken = linear.check(operations)
		local made = history.check(c, { load }, { register = true, ["session-1"] = true, ["session-2"] = true })
		local session_reads = 0
		for _, path in ipairs(others.sessions) do
			local wrong, reads = sessions.check(lines_of(path))
			broken = broken or wrong
			session_reads = session_reads + (reads or 0)
		end
		assert(not broken, ("seed %d: %s"):format(SEED, tostring(broken)))
		local events = check_watchers(c, others.watchers)
		local text = {}
		for _, kind in ipairs(KINDS) do text[#text + 1] = kind .. "=" .. (strikes[kind] or 0) end
		local told = ("seed=%d seconds=%d created=%d writes=%d strong_reads=%d session_reads=%d watched=%d %s"):format(SEED,
			SECONDS, made, counts.write, counts.read, session_reads, events, table.concat(text, " "))
		if os.getenv("CHAOS_S") then io.stderr:write("# ", told, "\n") end
		assert(made > SECONDS and counts.write > 2 * SECONDS and counts.read > 2 * SECONDS and session_reads > SECONDS and
			events > SECONDS, told)
	end)
end)

-- The checks must see what they are for.
describe("the checks of chaos", function()
	it("find reads of a session that are old, invented, or go back", function()
		for i, lines in ipairs {
			{ "write 5 10", "read 4 12" },
			{ "write 5 10", "read 5 9" },
			{ "write 5 10", "read 6 11" },
			{ "write 5 10", "unknown 6 0", "read 6 11", "read 5 12" },
			{ "write 5 10", "read 5 12", "write 6 11" },
		} do
			assert(sessions.check(lines), "session " .. i .. " was accepted")
		end
		local broken, reads = sessions.check { "write 5 10", "unknown 6 0", "read 5 11", "read 6 11", "write 7 13",
			"read 7 13" }
		assert(not broken, broken)
		assert.equal(3, reads)
	end)

	it("find watchers that missed, doubled, or invented something", function()
		local topics = { a = true, b = true }
		local begin = { "begin -1", "put a 3 1", "at 4" }
		local function check(...)
			local lines = { table.unpack(begin) }
			for _, line in ipairs { ... } do lines[#lines + 1] = line end
			return watches.check(lines, topics, 9)
		end
		assert.equal("b was never shown", check("at 9"))
		assert.equal("behind", check("at 8"))
		assert(check("put b 4 0", "at 9"):find("all up to 4 was given", 1, true))
		assert(check("put b 6 0", "put b 6 0", "at 9"):find("all up to 6", 1, true))
		assert(check("put b 6 0", "begin 6", "put b 6 0", "at 9"):find("all up to 6", 1, true))
		assert.equal("a was shown and is not there", watches.check({ "begin -1", "put a 3 0", "at 9" }, {}, 9))
		assert.equal("a was never shown", check("put b 6 0", "delete a 7 0", "at 9"))
		assert(check("put b 6 0", "at 9", "at 8"):find("behind", 1, true))
		local broken, events = check("put b 6 0", "begin 6", "put c 7 1", "delete c 7 0", "at 9")
		assert(not broken, broken)
		assert.equal(3, events)
	end)

	it("find what grows with time, and not what fills once or wavers", function()
		local function series(fn)
			local samples = {}
			for i = 1, 100 do samples[i] = { i, fn(i) } end
			return samples
		end
		local grows, by = slopes.judge(series(function(i) return 1000 + 10 * i end), 500)
		assert(grows)
		assert(math.abs(by - 790) < 1e-6, by)
		assert.is_false(slopes.judge(series(function(i) return math.min(i, 15) * 100 end), 100))
		assert.is_false(slopes.judge(series(function(i) return 5000 + i % 7 * 100 end), 100))
	end)

	it("find topics that are lost, doubled, or made although refused", function()
		local function cluster(names)
			return { nodes = { { id = "n1", topic_names = function() return names end } } }
		end
		local function load(...)
			local lines = { ... }
			return { lines = function() return lines end }
		end
		local a = { status = "201", outcome = "-", name = "a" }
		local none = { status = "503", outcome = "none", name = "b" }
		assert.equal(1, history.check(cluster { "a" }, { load(a, none) }))
		assert.has_error(function() history.check(cluster {}, { load(a) }) end)
		assert.has_error(function() history.check(cluster { "a", "a" }, { load(a) }) end)
		assert.has_error(function() history.check(cluster { "a", "b" }, { load(a, none) }) end)
		assert.has_error(function() history.check(cluster { "a" }, { load(a, a) }) end)
		assert.has_error(function() history.check(cluster { "a", "x", "y" }, { load(a) }) end)
	end)
end)
