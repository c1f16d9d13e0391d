-- tests/cluster/http.lua - a plain HTTP/1.1 client for tests: raw where a test wants to be rude, short where not.
--
--   local conn = http.connect(port)                      keep-alive, pipelining: conn:send(bytes), conn:receive()
--   local r = conn:request("POST", "/v1/topics", { name = "a" })
--   local r = http.request(port, "GET", "/v1/status")    one connection for one request
--
-- A response: { status, reason, headers (names in lower case), body, json (decoded, when the type says JSON) }.
-- What the peer or the network does wrong comes back as nil and a text; nothing is tried twice.

local socket = require "socket"
local dkjson = require "dkjson"

local http = {}

local Conn = {}
Conn.__index = Conn

-- Every wait is bounded: a server that says nothing fails the test instead of hanging it.
function http.connect(port, timeout_s)
	local sock = socket.tcp()
	sock:settimeout(timeout_s or 15)
	local ok, err = sock:connect("127.0.0.1", port)
	if not ok then
		sock:close()
		return nil, "connect: " .. err
	end
	sock:setoption("tcp-nodelay", true)
	return setmetatable({ sock = sock }, Conn)
end

function Conn:close()
	self.sock:close()
end

function Conn:send(bytes)
	local sent, err = self.sock:send(bytes)
	if not sent then return nil, "send: " .. err end
	return true
end

function Conn:settimeout(seconds)
	self.sock:settimeout(seconds)
end

-- True when the server closed the connection and nothing more comes.
function Conn:is_closed()
	local bytes, err = self.sock:receive(1)
	return bytes == nil and err == "closed"
end

function http.decode(text)
	local value, at, err = dkjson.decode(text, 1, dkjson.null)
	if err then return nil, "json: " .. err end
	if text:find("%S", at) then return nil, "json: something behind the value" end
	return value
end

http.null = dkjson.null
http.encode = dkjson.encode

local function read_headers(sock)
	local headers = {}
	while true do
		local line, err = sock:receive("*l")
		if not line then return nil, "header: " .. err end
		if line == "" then return headers end
		local name, value = line:match("^([^:%s]+):%s*(.-)%s*$")
		if not name then return nil, "header: cannot read '" .. line .. "'" end
		name = name:lower()
		headers[name] = headers[name] and headers[name] .. ", " .. value or value
	end
end

local function read_chunks(sock)
	local parts = {}
	while true do
		local line, err = sock:receive("*l")
		if not line then return nil, "chunk: " .. err end
		local size = tonumber(line:match("^%x+"), 16)
		if not size then return nil, "chunk: cannot read '" .. line .. "'" end
		if size == 0 then
			local trailers, terr = read_headers(sock)
			if not trailers then return nil, terr end
			return table.concat(parts)
		end
		local bytes, berr = sock:receive(size + 2)
		if not bytes then return nil, "chunk: " .. berr end
		parts[#parts + 1] = bytes:sub(1, -3)
	end
end

-- Reads one response; `method` matters for HEAD, which has no body.
function Conn:receive(method)
	local line, err = self.sock:receive("*l")
	if not line then return nil, "status line: " .. err end
	local status, reason = line:match("^HTTP/1%.1 (%d%d%d) ?(.*)$")
	if not status then return nil, "status line: cannot read '" .. line .. "'" end
	local r = { status = tonumber(status), reason = reason, body = "" }
	r.headers, err = read_headers(self.sock)
	if not r.headers then return nil, err end

	if method ~= "HEAD" and r.status ~= 204 and r.status ~= 304 and r.status >= 200 then
		local length = tonumber(r.headers["content-length"])
		if r.headers["transfer-encoding"] then
			r.body, err = read_chunks(self.sock)
		elseif length then
			if length > 0 then r.body, err = self.sock:receive(length) end
		else
			r.body, err = self.sock:receive("*a")
		end
		if not r.body then return nil, "body: " .. err end
	end
	if (r.headers["content-type"] or ""):find("^application/json") and r.body ~= "" then
		r.json, err = http.decode(r.body)
		if err then return nil, err .. " in " .. r.body end
	end
	return r
end

-- The bytes of a request. `body` is sent as it is, or as JSON when it is a table.
function http.format(method, target, body, headers)
	local lines = { method .. " " .. target .. " HTTP/1.1", "Host: test" }
	if type(body) == "table" then body = dkjson.encode(body) end
	if body then
		lines[#lines + 1] = "Content-Type: application/json"
		lines[#lines + 1] = "Content-Length: " .. #body
	end
	for name, value in pairs(headers or {}) do lines[#lines + 1] = name .. ": " .. value end
	return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end

function Conn:request(method, target, body, headers)
	local ok, err = self:send(http.format(method, target, body, headers))
	if not ok then return nil, err end
	return self:receive(method)
end

function http.request(port, method, target, body, headers, timeout_s)
	local conn, err = http.connect(port, timeout_s)
	if not conn then return nil, err end
	local r
	r, err = conn:request(method, target, body, headers)
	conn:close()
	return r, err
end

return http
