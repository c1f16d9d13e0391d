-- tests/cluster/load.lua - a client that creates topics as fast as it is answered, and writes down what it was told.
--
--   lua5.4 load.lua PREFIX OUT PORT...
--
-- A process of its own, so that the test is free to kill nodes meanwhile. Names are PREFIX-1, -2, ... and each is
-- asked for once: a name is never sent again, so that "created" appears at most once for it and nothing hides
-- behind a retry. One line per request in OUT, written before the next is sent, flushed: "STATUS OUTCOME NAME
-- SENT_MS ANSWERED_MS" (monotonic); STATUS "-" when the connection died under it, OUTCOME what a 5xx says of it
-- ("-" otherwise). Runs until it is killed.

local http = require "cluster.http"
local proc = require "proc"

local prefix, out_path = arg[1], arg[2]
local ports = { table.unpack(arg, 3) }
local out = assert(io.open(out_path, "a"))
local at, conn = 1, nil

local function next_node()
	if conn then conn:close() end
	conn = nil
	at = at % #ports + 1
end

local n = 0
while true do
	if not conn then conn = http.connect(ports[at], 10) end
	if not conn then
		next_node()
		proc.sleep_ms(5)
	else
		n = n + 1
		local name, sent = prefix .. "-" .. n, proc.now_ms()
		local r = conn:request("POST", "/v1/topics", { name = name, partitions = 3 })
		out:write(string.format("%s %s %s %.1f %.1f\n", r and r.status or "-", r and r.json and r.json.outcome or "-", name,
			sent, proc.now_ms()))
		out:flush()
		if not r then
			next_node()
		elseif r.status == 503 or (r.headers["connection"] or ""):lower() == "close" then
			-- No leader here yet: do not turn the wait for one into a flood.
			next_node()
			proc.sleep_ms(5)
		end
	end
end
