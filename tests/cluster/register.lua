-- tests/cluster/register.lua - a client of one register: a topic's retention_ms, written or read as fast as it answers.
--
--   lua5.4 register.lua write|read NUMBER CONSISTENCY OUT PORT...
--
-- One line in OUT for each operation that may have happened: "KIND VALUE SENT_MS ANSWERED_MS" (monotonic), ANSWERED_MS
-- "inf" for a write nobody knows the end of. Every value is written once: NUMBER tells the writers apart. Goes round
-- the nodes, one operation each. Runs until it is killed.

local http = require "cluster.http"
local proc = require "proc"

local kind, number, consistency, out_path = arg[1], math.tointeger(tonumber(arg[2])), arg[3], arg[4]
local ports = { table.unpack(arg, 5) }
local out = assert(io.open(out_path, "a"))
local conns, at = {}, number % #ports + 1
local TARGET, TIMEOUT_S = "/v1/topics/register", 3

local function note(value, sent, answered)
	out:write(string.format("%s %d %.3f %s\n", kind, value, sent, answered and string.format("%.3f", answered) or "inf"))
	out:flush()
end

local n = 0
local function write(conn)
	n = n + 1
	local value, sent = 3600001 + number * 100000000 + n, proc.now_ms()
	local r, why = conn:request("PATCH", TARGET, { retention_ms = value })
	if r and r.status == 200 then
		note(value, sent, proc.now_ms())
	elseif not r or (r.json and r.json.outcome == "unknown") then
		note(value, sent, nil)
	end
	return r, why
end

local function read(conn)
	local sent = proc.now_ms()
	local r, why = conn:request("GET", TARGET .. "?consistency=" .. consistency)
	if r and r.status == 200 then note(r.json.retention_ms, sent, proc.now_ms()) end
	return r, why
end

while true do
	local conn = conns[at] or http.connect(ports[at], TIMEOUT_S)
	local r = conn and (kind == "write" and write or read)(conn)
	if r and r.headers["connection"] ~= "close" then
		conns[at] = conn
	else -- what answers to a request given up would be taken for the next one's answer
		if conn then conn:close() end
		conns[at] = nil
	end
	at = at % #ports + 1
	if not r or r.status ~= 200 then proc.sleep_ms(10) end
end
