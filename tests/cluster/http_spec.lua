-- How the daemon frames requests: what two programs could read in two ways is refused and the connection closed, and
-- no byte behind it is ever taken for a request. Raw sockets against one real node.

local harness = require "cluster.harness"
local http = harness.http

local ONE = { nodes = 1, alone = true }

-- A create of `name`, as bytes: what a smuggler would hide behind an ambiguous request.
local function create(name)
	return http.format("POST", "/v1/topics", { name = name, partitions = 3 })
end

local BODY = '{"name":"front","partitions":3}'

-- Request line and Host are written by the cases that are about them.
local function post(headers, body)
	return "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" .. headers .. "\r\n"
		.. (body or BODY)
end

local function get(rest)
	return "GET /v1/status HTTP/1.1\r\n" .. rest
end

local CL = "Content-Length: " .. #BODY .. "\r\n"
local CHUNKED = "Transfer-Encoding: chunked\r\n"
local chunk_body = string.format("%x\r\n%s\r\n0\r\n\r\n", #BODY, BODY)

-- what is wrong -> the bytes, and the statuses that are right
local REFUSED = {
	["a length beside chunked coding"] = { post("Content-Length: 4\r\n" .. CHUNKED, chunk_body), 400 },
	["chunked coding beside a length"] = { post(CHUNKED .. CL, chunk_body), 400 },
	["a blank before the colon"] = { post("Transfer-Encoding : chunked\r\n", chunk_body), 400 },
	["a tab before the colon"] = { post("Content-Length\t: " .. #BODY .. "\r\n"), 400 },
	["a coding that only looks like chunked"] = { post("Transfer-Encoding: xchunked\r\n", chunk_body), 400, 501 },
	["chunked and then identity"] = { post("Transfer-Encoding: chunked, identity\r\n", chunk_body), 400, 501 },
	["gzip and then chunked"] = { post("Transfer-Encoding: gzip, chunked\r\n", chunk_body), 400, 501 },
	["chunked twice"] = { post(CHUNKED .. CHUNKED, chunk_body), 400, 501 },
	["chunked in HTTP/1.0"] = {
		(post(CHUNKED, chunk_body):gsub("HTTP/1.1", "HTTP/1.0", 1)), 400, 501 },
	["a chunk size with 0x"] = { post(CHUNKED, "0x10\r\n" .. ("x"):rep(16) .. "\r\n0\r\n\r\n"), 400 },
	["a negative chunk size"] = { post(CHUNKED, "-1\r\n" .. BODY .. "\r\n0\r\n\r\n"), 400 },
	["a chunk size of 17 digits"] = { post(CHUNKED, ("1"):rep(17) .. "\r\n" .. BODY), 400, 413 },
	["a chunk size that wraps to the right one"] = {
		post(CHUNKED, string.format("1%016x\r\n%s\r\n0\r\n\r\n", #BODY, BODY)), 400, 413 },
	["a chunk extension of 64 KiB"] = {
		post(CHUNKED, "5;x=" .. ("y"):rep(65536) .. "\r\nabcde\r\n0\r\n\r\n"), 400, 413, 431 },
	["a chunk without its CRLF"] = { post(CHUNKED, "5\r\nabcdeXX0\r\n\r\n"), 400 },
	["a bare LF behind a chunk size"] = { post(CHUNKED, string.format("%x\n%s\r\n0\r\n\r\n", #BODY, BODY)), 400 },
	["an empty chunk size"] = { post(CHUNKED, "\r\n" .. BODY .. "\r\n0\r\n\r\n"), 400 },
	["two lengths that differ"] = { post("Content-Length: 3\r\n" .. CL), 400 },
	["two lengths in one line"] = { post("Content-Length: 3, " .. #BODY .. "\r\n"), 400 },
	["a length with a sign"] = { post("Content-Length: +" .. #BODY .. "\r\n"), 400 },
	["a negative length"] = { post("Content-Length: -1\r\n"), 400 },
	["a length in hex"] = { post("Content-Length: 0x1f\r\n"), 400 },
	["an empty length"] = { post("Content-Length: \r\n"), 400 },
	["a length that wraps"] = { post("Content-Length: 18446744073709551647\r\n"), 400, 413 },
	["a bare LF at the end of a line"] = { get("Host: a\nX: y\r\n\r\n"), 400 },
	["bare LFs at the end of the head"] = { get("Host: a\r\n\n"), 400 },
	["a bare CR in a line"] = { get("Host: a\r\nX: y\rz\r\n\r\n"), 400 },
	["a NUL in a value"] = { get("Host: a\r\nX: y\0z\r\n\r\n"), 400 },
	["a folded line"] = { get("Host: a\r\nX: y\r\n z\r\n\r\n"), 400 },
	["a blank before the first header"] = { get(" Host: a\r\n\r\n"), 400 },
	["a header without a colon"] = { get("Host: a\r\nnothing\r\n\r\n"), 400 },
	["a header without a name"] = { get("Host: a\r\n: x\r\n\r\n"), 400 },
	["no Host"] = { get("X: y\r\n\r\n"), 400 },
	["two Hosts"] = { get("Host: a\r\nHost: b\r\n\r\n"), 400 },
	["HTTP/2.0"] = { "GET /v1/status HTTP/2.0\r\nHost: a\r\n\r\n", 400, 505 },
	["HTTP/1.2"] = { "GET /v1/status HTTP/1.2\r\nHost: a\r\n\r\n", 400, 505 },
	["HTTP/0.9"] = { "GET /v1/status\r\n\r\n", 400, 505 },
	["a version in small letters"] = { "GET /v1/status http/1.1\r\nHost: a\r\n\r\n", 400, 505 },
	["two blanks before the version"] = { "GET /v1/status  HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
	["a target with a control byte"] = { "GET /v1/sta\1tus HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
	["a target with a byte beyond ASCII"] = { "GET /v1/sta\195\164tus HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
	["an upgrade"] = { get("Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 400, 501 },
	["CONNECT"] = { "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 400, 405, 501 },
	["a target without end"] = { "GET /" .. ("x"):rep(20000) .. " HTTP/1.1\r\nHost: a\r\n\r\n", 414 },
	["a head without end"] = { get("Host: a\r\n" .. ("X: " .. ("y"):rep(1000) .. "\r\n"):rep(80) .. "\r\n"), 431 },
	["a TLS hello"] = { "\22\3\1\2\0\1\0\1\252\3\3" .. ("x"):rep(100) .. "\r\n\r\n", 400 },
	["a body over 1 MiB"] = { post("Content-Length: 1048577\r\n", ("x"):rep(1000)), 413 },
	["a chunked body over 1 MiB"] = { post(CHUNKED, ("10000\r\n" .. ("x"):rep(65536) .. "\r\n"):rep(17)), 413 },
}

-- Reads what comes until the server closes; nil when it does not.
local function read_to_close(conn)
	local parts = {}
	while true do
		local bytes, err, rest = conn.sock:receive(4096)
		parts[#parts + 1] = bytes or rest
		if err == "closed" then return table.concat(parts) end
		if err then return nil, err end
	end
end

describe("the framing of requests", function()
	harness.case("refuses what can be read in two ways, and everything behind it", ONE, function(c)
		local node = c:leader()
		local names, n = {}, 0
		for what in pairs(REFUSED) do names[#names + 1] = what end
		table.sort(names)
		for _, what in ipairs(names) do
			local case = REFUSED[what]
			n = n + 1
			local conn = assert(http.connect(node.http_port, 5))
			-- A send may fail half-way: the server is free to close before it has read all of it.
			conn:send(case[1] .. create("smuggled-" .. n))
			local answer = read_to_close(conn)
			assert(answer, what .. ": the connection was not closed")
			local status = tonumber(answer:match("^HTTP/1%.1 (%d%d%d)"))
			local right = false
			for i = 2, #case do right = right or case[i] == status end
			assert(right, what .. ": answered " .. (answer == "" and "nothing" or answer))
			local _, answers = answer:gsub("HTTP/1%.1 %d%d%d", "")
			assert.equal(1, answers, what .. ": something behind it was answered too")
			assert(answer:lower():find("connection: close", 1, true), what .. ": the answer does not say close")
			conn:close()
		end
		assert.same({}, node:topic_names())
	end)

	-- The one line an operator needs to find the client: once per refusal, with its address.
	harness.case("logs a refusal once, with the peer", ONE, function(c)
		local node = c:leader()
		local conn = assert(http.connect(node.http_port, 5))
		local _, port = conn.sock:getsockname()
		conn:send(post("Content-Length: 4\r\n" .. CHUNKED, chunk_body))
		assert(read_to_close(conn))
		harness.eventually(2000, "the log names the peer", function()
			return node:log():find("127.0.0.1:" .. port, 1, true)
		end)
		local _, lines = node:log():gsub("127%.0%.0%.1:" .. port, "")
		assert.equal(1, lines)
	end)

	-- A request must not depend on how the network cut it.
	harness.case("takes a request byte by byte", ONE, function(c)
		local conn = assert(http.connect(c:leader().http_port))
		local bytes = post(CHUNKED, "3\r\n" .. BODY:sub(1, 3) .. "\r\n" .. string.format("%X\r\n%s\r\n0\r\n\r\n",
			#BODY - 3, BODY:sub(4)))
		for i = 1, #bytes do assert(conn:send(bytes:sub(i, i))) end
		assert.equal(201, assert(conn:receive("POST")).status)
		assert.equal(200, assert(conn:request("GET", "/v1/topics/front")).status)
		conn:close()
	end)

	-- Pipelining: answers in the order of the requests, whatever each one takes.
	harness.case("answers pipelined requests in order", ONE, function(c)
		local conn = assert(http.connect(c:leader().http_port))
		local bytes, want = {}, {}
		for i = 1, 100 do
			bytes[#bytes + 1] = create("piped-" .. i)
			want[#want + 1] = { "POST", 201 }
			bytes[#bytes + 1] = http.format("GET", "/v1/topics/piped-" .. i)
			want[#want + 1] = { "GET", 200, "piped-" .. i }
			bytes[#bytes + 1] = http.format("HEAD", "/v1/topics/piped-" .. i)
			want[#want + 1] = { "HEAD", 200 }
			bytes[#bytes + 1] = http.format("GET", "/v1/topics/nothing-" .. i)
			want[#want + 1] = { "GET", 404 }
		end
		assert(conn:send(table.concat(bytes)))
		for i, w in ipairs(want) do
			local r = assert(conn:receive(w[1]))
			assert.equal(w[2], r.status, "answer " .. i .. ": " .. r.body)
			if w[3] then assert.equal(w[3], r.json.name) end
		end
		conn:close()
	end)

	-- What keeps and what ends a connection.
	harness.case("keeps connections alive as asked", ONE, function(c)
		local port = c:leader().http_port
		local conn = assert(http.connect(port))
		for _ = 1, 10 do assert.equal(200, assert(conn:request("GET", "/v1/status")).status) end
		assert.equal(200, assert(conn:request("GET", "/v1/status", nil, { Connection = "close" })).status)
		assert.is_true(conn:is_closed())
		conn:close()

		conn = assert(http.connect(port))
		assert(conn:send("GET /v1/status HTTP/1.0\r\n\r\n"))
		assert.equal(200, assert(conn:receive("GET")).status)
		assert.is_true(conn:is_closed())
		conn:close()
	end)

	-- The rules that come after framing: type, method, path, parameter.
	harness.case("says what is wrong with a well-framed request", ONE, function(c)
		local port = c:leader().http_port
		local function raw(bytes)
			local conn = assert(http.connect(port))
			assert(conn:send(bytes))
			local r = assert(conn:receive("POST"))
			conn:close()
			return r
		end
		local typed = raw("POST /v1/topics HTTP/1.1\r\nHost: a\r\n" .. CL .. "\r\n" .. BODY)
		assert.equal(415, typed.status)
		assert.equal("content_type", typed.json.code)
		local client = raw("POST /v1/topics HTTP/1.1\r\nHost: a\r\nX-Narad-Client: 1\r\n" .. CL .. "\r\n" .. BODY)
		assert.equal(201, client.status)
		local put = raw("PUT /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		assert.equal(405, put.status)
		assert.truthy(put.headers["allow"]:find("POST", 1, true))
		local r = assert(http.request(port, "GET", "/v1/topics?nosuch=1"))
		assert.equal(400, r.status)
		assert.equal("bad_parameter", r.json.code)
		r = assert(http.request(port, "GET", "/v1/topics?limit=0"))
		assert.equal(400, r.status)
		r = assert(http.request(port, "GET", "/v1/no/such"))
		assert.equal(404, r.status)
		assert.equal("no_such_path", r.json.code)
	end)
end)
