-- tests/cluster/history.lua - a load that creates topics while a test breaks things, and what must be true of what its
-- clients were told (load.lua writes that down).

local assert = require "luassert"
local harness = require "cluster.harness"
local proc = harness.proc

local history = {}

-- Starts a load over all nodes; load.lines() is what its clients were told so far.
function history.start_load(c, prefix)
	local out = c.dir .. "/" .. prefix .. ".load"
	local argv = { "lua5.4", "tests/cluster/load.lua", prefix, out, out = out .. ".err" }
	for _, node in ipairs(c.nodes) do argv[#argv + 1] = tostring(node.http_port) end
	local load = { pid = c:spawn(argv) }
	function load.lines()
		local lines = {}
		local file = io.open(out, "r")
		if not file then return lines end
		for line in file:lines() do
			local status, outcome, name, sent, answered = line:match("^(%S+) (%S+) (%S+) (%S+) (%S+)$")
			if status then
				lines[#lines + 1] = { status = status, outcome = outcome, name = name, sent = tonumber(sent),
					answered = tonumber(answered) }
			end
		end
		file:close()
		return lines
	end
	function load.stop()
		proc.kill(load.pid, proc.SIGKILL)
		proc.wait(load.pid, 5000)
	end
	return load
end

-- When the first create that was sent after `since` was answered with 201.
function history.first_created(loads, since)
	local first
	for _, load in ipairs(loads) do
		for _, line in ipairs(load.lines()) do
			if line.status == "201" and line.sent > since and (not first or line.answered < first) then
				first = line.answered
			end
		end
	end
	return first
end

-- Each node holds every created name, none twice, none that was refused and none nobody asked for. (A load may be
-- killed between an answer and its line: the very last name of each may be unknown here.) `others`: names that are not
-- a load's.
function history.check(c, loads, others)
	local told, created = {}, 0
	for _, load in ipairs(loads) do
		for _, line in ipairs(load.lines()) do
			assert(not told[line.name], "the load asked twice for " .. line.name)
			told[line.name] = line
			if line.status == "201" then created = created + 1 end
			-- A name is asked for once, so nothing can be there before it.
			assert.not_equal("409", line.status, line.name)
			assert(line.status == "201" or line.status == "503" or line.status == "-",
				line.name .. " was answered " .. line.status)
			assert(line.status ~= "503" or line.outcome == "none" or line.outcome == "unknown",
				line.name .. ": a 503 to a write without outcome")
		end
	end
	for _, node in ipairs(c.nodes) do
		local here, unknown = {}, 0
		for _, name in ipairs(node:topic_names()) do
			assert(not here[name], node.id .. " lists " .. name .. " twice")
			here[name] = true
			local line = told[name]
			unknown = unknown + ((line or others and others[name]) and 0 or 1)
			assert(not line or line.outcome ~= "none", node.id .. " holds " .. name .. ", refused with outcome none")
		end
		assert(unknown <= #loads, node.id .. " holds names nobody asked for")
		for name, line in pairs(told) do
			assert(line.status ~= "201" or here[name], node.id .. " lost " .. name .. ", which was answered 201")
		end
	end
	return created
end

return history
