-- TLS for clients and between nodes: one cluster with both and with auth; who does not belong is kept out and told why.

local harness = require "cluster.harness"
local https = require "cluster.https"
local proc = harness.proc

local PASSWORD = "correct horse"

local function curl(c, node, words)
	return string.format("curl -sS --cacert %s/ca.pem -u admin:'%s' %s https://127.0.0.1:%d", c.dir, PASSWORD, words,
		node.http_port)
end

local function output_of(command)
	local pipe = assert(io.popen(command .. " 2>&1"))
	local text = pipe:read("a")
	return text, pipe:close()
end

-- n3 started with these flags never gets in: nobody has a link from it, it is not ready; somebody says `words`.
local function is_kept_out(c, flags, words, told)
	local n3, good = c.nodes[3], c.nodes[3].flags
	n3.flags = flags
	n3:start()
	harness.eventually(8000, "somebody says: " .. words, function()
		for _, node in ipairs(told or c.nodes) do
			if node:log():find(words, 1, true) then return true end
		end
	end)
	assert(not n3:is_ready())
	c.nodes[1]:get("/v1/topics/orders?consistency=strong", 200) -- the others go on
	n3:kill()
	n3.flags = good
end

describe("TLS", function()
	harness.case("carries everything, and only for those who belong", { tls = true, auth = PASSWORD }, function(c)
		-- Writes through all nodes, forwarded over links; strong reads; equal replicas.
		local leader = c:leader()
		leader:post("/v1/topics", { name = "orders", partitions = 3 }, 201)
		for i, node in ipairs(c.nodes) do
			node:post("/v1/topics", { name = "t" .. i, partitions = 3 }, 201)
			node:get("/v1/topics/t" .. i .. "?consistency=strong", 200)
			node:get("/v1/topics", 401, { Authorization = false })
		end
		c:settle()

		-- A body of several TLS records.
		local big = ("x"):rep(60000)
		local r = leader:post("/v1/topics", { name = big }, 400)
		assert(r.body:find("name", 1, true))

		-- Plain HTTP at the TLS port is told so.
		local plain = assert(harness.http.request(leader.http_port, "GET", "/v1/status"))
		assert.equal(400, plain.status)
		assert(plain.body:find("https://", 1, true), plain.body)

		-- An older version finds no agreement.
		local _, ok = output_of(curl(c, leader, "--tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0"))
		assert.is_nil(ok)

		-- The command speaks it.
		local text, done = output_of(string.format("VEENA_PASSWORD='%s' %s --url https://127.0.0.1:%d --user admin"
			.. " --cacert %s/ca.pem --json topics get orders", PASSWORD, os.getenv("VEENA") or "build/veena",
			leader.http_port, c.dir))
		assert(done and text:find('"orders"', 1, true), text)

		-- A watch stream stays open and brings what happens.
		local seen = c.dir .. "/watch"
		local pid = c:spawn { "/bin/sh", "-c", "exec " .. curl(c, leader, "-N -o " .. seen) .. "'/v1/watch?domains=topics'" }
		harness.eventually(8000, "a watched change arrives", function()
			local name = "w" .. math.floor(proc.now_ms())
			leader:post("/v1/topics", { name = name, partitions = 3 }, 201)
			local file = io.open(seen, "rb")
			local got = file and file:read("a") or ""
			if file then file:close() end
			return got:find('"w%d+"') ~= nil
		end)

		-- Certificates of another authority are loaded under load: no connection is lost, new ones see them.
		local count = harness.scaled(3000, 30000)
		local counts = c.dir .. "/load"
		local words = "-w '%{http_code} %{num_connects}\\n' -o /dev/null"
		local load = c:spawn { "/bin/sh", "-c",
			"exec " .. curl(c, leader, words) .. "'/v1/topics/orders#[1-" .. count .. "]' >" .. counts }
		harness.eventually(8000, "the load runs", function()
			local file = io.open(counts, "rb")
			local got = file and file:read("a") or ""
			if file then file:close() end
			return #got > 0
		end)
		c:make_ca("ca2")
		c:make_cert("ca2", "http", "IP:127.0.0.1")
		leader:signal(proc.SIGHUP)
		harness.eventually(5000, "new connections see the new certificate", function()
			return https.request(leader.http_port, "GET", "/healthz", nil, nil, 5, { cacert = c.dir .. "/ca2.pem" })
		end)
		local code = proc.wait(load, 60000)
		assert.equal(0, code)
		local answers, connects = 0, 0
		for status, n in io.open(counts):read("a"):gmatch("(%d+) (%d+)\n") do
			assert.equal("200", status)
			answers, connects = answers + 1, connects + tonumber(n)
		end
		assert.equal(count, answers)
		assert.equal(1, connects)
		assert(not proc.wait(pid, 0), "the watch was dropped") -- it began before
		-- What cannot be read leaves everything as it is.
		assert(os.execute(": >" .. c.dir .. "/http.key"))
		leader:signal(proc.SIGHUP)
		harness.eventually(5000, "the failed reload is said", function()
			return leader:log():find("reload%.certificate[^\n]* of=http error=")
				and leader:log():find(c.dir .. "/http.key", 1, true)
		end)
		assert(https.request(leader.http_port, "GET", "/healthz", nil, nil, 5, { cacert = c.dir .. "/ca2.pem" }))
		c:make_cert("ca", "http", "IP:127.0.0.1")
		leader:signal(proc.SIGHUP)
		harness.eventually(5000, "the first authority is back", function()
			return leader:get("/v1/status", 200)
		end)

		-- Who does not belong. n3 goes, and comes as somebody else.
		c.nodes[3]:stop()
		c:leader()
		local others = { c.nodes[1], c.nodes[2] }
		c:make_ca("rogue")
		c:make_cert("rogue", "rogue3", "DNS:n3")
		is_kept_out(c, c:tls_flags("rogue3"), "its certificate is refused", others)
		c:make_cert("ca", "n9", "DNS:n9,IP:10.9.9.9")
		-- The others say something of one node once a minute, and have; n3 is told and says it too.
		is_kept_out(c, c:tls_flags("n9"), "it finds neither this node's id nor its address", { c.nodes[3] })
		is_kept_out(c, {}, "it speaks TLS and this node does not", { c.nodes[3] })
		local n3 = c.nodes[3]
		n3:start({ "--http-request-ms", "700" }):wait_ready()
		c:settle()

		-- A handshake that is begun and not ended is cut off, at either port (F45).
		for _, port in ipairs { n3.http_port, n3.cluster_port } do
			local conn, since = assert(harness.http.connect(port, 6)), proc.now_ms()
			assert(conn:send("\22\3\1\1\0"))
			assert(conn:is_closed())
			assert(proc.now_ms() - since < 5000)
			conn:close()
		end

		-- Files that do not fit: exit 2 with the file's name.
		n3:stop()
		n3:start { "--cluster-tls-key", c.dir .. "/n1.key" }
		assert.equal(2, n3:wait_exit())
		assert(n3:log():find(c.dir .. "/n1.key is not the key of the certificate in " .. c.dir .. "/n3.pem", 1, true))
	end)
end)
