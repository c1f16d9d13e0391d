-- tests/cluster/session.lua - a client that remembers: it writes its own topic through any node and reads it from any
-- other, asking for nothing older than what it has seen (min_index).
--
--   lua5.4 session.lua NAME OUT PORT...
--
-- One line in OUT for each operation: "write VALUE INDEX", "unknown VALUE 0" when nobody knows its end, "read VALUE
-- INDEX". Values only grow. Runs until it is killed. cluster.sessions says what must be true of the lines.

local http = require "cluster.http"
local proc = require "proc"

local name, out = arg[1], assert(io.open(arg[2], "a"))
local ports = { table.unpack(arg, 3) }
local TIMEOUT_S = 5

local function note(kind, value, index)
	out:write(string.format("%s %d %d\n", kind, value, index))
	out:flush()
end

local at = 1
local function ask(method, target, body)
	at = at % #ports + 1
	return http.request(ports[at], method, target, body, nil, TIMEOUT_S)
end

local seen, value = 0, 3600000
local function keep(r)
	seen = math.max(seen, math.tointeger(tonumber(r.headers["x-veena-index"])))
	return math.tointeger(tonumber(r.headers["x-veena-index"]))
end

while true do
	local r = ask("POST", "/v1/topics", { name = name, partitions = 3, retention_ms = value })
	if r and r.status == 201 then
		keep(r)
		break
	end
	if r and r.status == 409 then break end -- an earlier try came through
	proc.sleep_ms(20)
end
while true do
	value = value + 1
	local r = ask("PATCH", "/v1/topics/" .. name, { retention_ms = value })
	if r and r.status == 200 then
		note("write", value, keep(r))
	elseif not r or r.json and r.json.outcome == "unknown" then
		note("unknown", value, 0)
	end
	for _ = 1, #ports do
		local got = ask("GET", "/v1/topics/" .. name .. "?min_index=" .. seen)
		if got and got.status == 200 then note("read", got.json.retention_ms, keep(got)) end
	end
end
