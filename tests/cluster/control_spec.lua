-- What the control plane says of itself on a real daemon, and who is given partitions.

local harness = require "cluster.harness"

local function metric(node, series)
	local text = node:get("/metrics").body
	for line in text:gmatch("[^\n]+") do
		if line:sub(1, #series + 1) == series .. " " then return tonumber(line:sub(#series + 2)) end
	end
	error(series .. " is not in:\n" .. text)
end

describe("control", function()
	-- A policy file that fails is passed over, and everybody can see it: status, its alarm, the series.
	harness.case("shows a policy that fails", { nodes = 1, alone = true, start = false }, function(c)
		local node = c.nodes[1]
		local dir = c.dir .. "/policies"
		assert(os.execute("mkdir '" .. dir .. "'"))
		local file = assert(io.open(dir .. "/placement.lua", "w"))
		file:write("return { place = function(cluster)\n  return cluster.no.such\nend }\n")
		file:close()
		node:start({ "--policy-dir", dir })
		node:wait_ready()
		node:post("/v1/topics", { name = "t" }, 201)
		local status = node:status()
		assert.equal("placement", status.policy_faults[1].kind)
		assert.equal("file", status.policy_faults[1].source)
		assert.equal(2, status.policy_faults[1].line)
		assert.equal("policy_fault", status.alarms[1].code)
		assert.truthy(status.alarms[1].since > 1700000000)
		assert.equal(1, metric(node, 'veena_policy_faults_total{kind="placement"}'))
		assert.equal(2, metric(node, 'veena_policy_run_seconds_count{kind="placement"}'))
		assert.equal(3, metric(node, 'veena_intents_total{kind="placement",outcome="applied"}'))
		assert.equal(1, metric(node, 'veena_alarm{code="policy_fault"}'))
		assert.equal(0, metric(node, 'veena_control_paused{kind="placement"}'))
		assert.equal(3, metric(node, 'veena_partitions{state="placed"}'))
	end)

	-- F43: whatever is written over a policy, the one behind it acts on, the next good text is in force, and a node starts
	-- beside a broken file.
	harness.case("F43: takes edits in place, good and bad", { nodes = 1, alone = true, start = false }, function(c)
		local node = c.nodes[1]
		local path = c.dir .. "/policies/placement.lua"
		local GOOD = "return { place = function(c, t, ps) local o = {} for _, p in ipairs(ps) do if p ~= 1 then "
			.. "o[p] = 'n1' end end return o, 'good' end }"
		local function write(text)
			local file = assert(io.open(path, "w"))
			file:write(text)
			file:close()
		end
		local made = 0
		local function owners()
			made = made + 1
			node:post("/v1/topics", { name = "t" .. made }, 201)
			local n = 0
			for _, a in ipairs(node:get("/v1/topics/t" .. made .. "/assignments", 200).json.assignments) do
				n = n + (a.owner_id == "n1" and 1 or 0)
			end
			return n
		end
		-- The shipped policy places all three, the good file only two of them at the create.
		local function in_force(count, what)
			harness.eventually(5000, what, function()
				local n = owners()
				return n == count, n .. " placed"
			end)
		end
		-- Each of the two lanes looks at the file for itself, and a fault stands until both have seen it go.
		local function no_faults(what)
			harness.eventually(5000, what .. " without a fault", function()
				return #node:status().policy_faults == 0
			end)
		end
		local bad = {
			{ "a syntax error", "return {" }, { "an error while it loads", "error('no')" }, { "a number", "return 7" },
			{ "no function", "return {}" }, { "a loop while it loads", "while true do end" },
			{ "an empty file", "" }, { "half a file", GOOD:sub(1, #GOOD // 2) },
			{ "too much", "--" .. ("x"):rep(1024 * 1024) .. "\n" .. GOOD },
		}
		assert(os.execute("mkdir '" .. c.dir .. "/policies'"))
		write(bad[1][2])
		node:start({ "--policy-dir", c.dir .. "/policies" })
		node:wait_ready()
		in_force(3, "the shipped policy beside a broken file")
		for i = 1, harness.scaled(3, #bad) do
			write(GOOD)
			in_force(2, "the good file before " .. bad[i][1])
			no_faults("the good file before " .. bad[i][1])
			write(bad[i][2])
			in_force(3, "the shipped policy after " .. bad[i][1])
			if #bad[i][2] <= 1024 * 1024 then
				assert.equal("placement", node:status().policy_faults[1].kind)
			end
		end
		write(GOOD)
		in_force(2, "the good file again")
		os.remove(path)
		in_force(3, "the shipped policy without a file")
		no_faults("no file")
	end)

	-- While policies of all kinds run wild, writes and heartbeats go on. F39 to F42 in a daemon.
	harness.case("F39: keeps writes and heartbeats undisturbed", { nodes = 1, alone = true, start = false }, function(c)
		local node = c.nodes[1]
		local dir = c.dir .. "/policies"
		assert(os.execute("mkdir '" .. dir .. "'"))
		node:start({ "--policy-dir", dir, "--dead-after-s", "3", "--member-heartbeat-ms", "500" })
		node:wait_ready()
		node:post("/v1/topics", { name = "t" }, 201)
		local function p99(ms, meanwhile)
			local took, until_ms, next_ms, n = {}, harness.proc.now_ms() + ms, 0, 0
			while harness.proc.now_ms() < until_ms do
				local began = harness.proc.now_ms()
				if began >= next_ms then
					next_ms, n = began + 1100, n + 1
					meanwhile(n)
					began = harness.proc.now_ms()
				end
				node:patch("/v1/topics/t", { retention_ms = 3600000 + #took }, 200)
				took[#took + 1] = harness.proc.now_ms() - began
			end
			table.sort(took)
			return took[math.ceil(#took * 0.99)], #took
		end
		local WILD = {
			placement = "return { place = function() while true do pcall(function() while true do end end) end end } -- %d",
			rebalance = "return { plan = function() local t = {} "
				.. "while true do t[#t + 1] = ('x'):rep(60000) .. #t end end } -- %d",
			drain = "return { finished = function() local s = 'x' while true do s = s .. s end end } -- %d",
		}
		local calm = p99(1000, function() end)
		local wild, writes = p99(harness.scaled(4000, 20000), function(n)
			for kind, text in pairs(WILD) do
				local file = assert(io.open(dir .. "/" .. kind .. ".lua", "w"))
				file:write(text:format(n))
				file:close()
			end
			node:post("/v1/topics", { name = "w" .. n }, 201)
		end)
		print(string.format("# writes while policies run wild: p99 %.1f ms of %d, %.1f ms before", wild, writes, calm))
		assert(wild < 100 + 3 * calm, wild .. " ms")
		assert.truthy(metric(node, 'veena_policy_faults_total{kind="rebalance"}') > 0)
		assert.truthy(metric(node, 'veena_policy_faults_total{kind="placement"}') > 0)
		assert.equal("alive", node:get("/v1/cluster/members", 200).json.members[1].status)
		assert.is_nil(node:log():find("member.dead", 1, true))
	end)

	-- A server that may hold nothing holds nothing, and a restart that says otherwise is heard.
	harness.case("follows --own-partitions both ways", { nodes = 1, alone = true, start = false }, function(c)
		local node = c.nodes[1]
		node:start({ "--own-partitions", "off" })
		node:wait_ready()
		node:post("/v1/topics", { name = "t" }, 201)
		assert.equal(3, metric(node, 'veena_partitions{state="unplaced"}'))
		node:stop()
		node:start({ "--own-partitions", "on" })
		node:wait_ready()
		harness.eventually(5000, "the partitions to be placed", function()
			return metric(node, 'veena_partitions{state="placed"}') == 3
		end)
		assert.equal(0, metric(node, 'veena_partitions{state="unplaced"}'))
	end)
end)
