-- tests/cluster/churn.lua - a client that creates, reads and deletes topics at a steady pace.
--
--   lua5.4 churn.lua PREFIX OUT RATE PORT...
--
-- RATE: writes a second, 0 = as fast as they are answered. OUT gets one byte for each answered write: its size is the
-- count. Runs until it is killed.

local http = require "cluster.http"
local proc = require "proc"

local prefix, out, rate = arg[1], assert(io.open(arg[2], "a")), tonumber(arg[3])
local ports = { table.unpack(arg, 4) }
out:setvbuf("no")

local conns = {}
local function ask(i, ...)
	local conn = conns[i] or http.connect(ports[i], 10)
	local r = conn and conn:request(...)
	if conn and not r then conn:close() end
	conns[i] = r and conn or nil
	return r
end

local begun, writes, n = proc.now_ms(), 0, 0
local function write(...)
	writes = writes + 1
	local due = rate > 0 and begun + writes * 1000 / rate or 0
	local now = proc.now_ms()
	if due > now then proc.sleep_ms(math.floor(due - now)) end
	local r = ask(writes % #ports + 1, ...)
	if r and r.status < 300 then out:write(".") end
end

while true do
	n = n + 1
	local name = prefix .. "-" .. n
	write("POST", "/v1/topics", { name = name, partitions = 3 })
	for i = 1, #ports do ask(i, "GET", "/v1/topics/" .. name) end
	write("DELETE", "/v1/topics/" .. name)
end
