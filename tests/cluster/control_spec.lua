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
