-- tests/cluster/watcher.lua - a client that keeps a picture of all topics by watching, from any node that answers.
--
--   lua5.4 watcher.lua OUT PORT...
--
-- It takes the state at one index (initial=true), then what changes; when a stream ends it goes on from the last index
-- that was whole, at the next node, or anew where that history is gone. OUT gets a line "begin INDEX" (-1: anew) for
-- each stream, and one for each of its lines: "put NAME INDEX MORE", "delete NAME INDEX MORE", "at INDEX" (progress,
-- synced). Runs until it is killed. cluster.watches says what must be true of the lines.

local http = require "cluster.http"
local proc = require "proc"

local out = assert(io.open(arg[1], "a"))
local ports = { table.unpack(arg, 2) }

local function note(...)
	out:write(table.concat({ ... }, " "), "\n")
	out:flush()
end

local function read_line(sock)
	local size = sock:receive("*l")
	size = size and tonumber(size:match("^%x+"), 16)
	if not size or size == 0 then return nil end
	return sock:receive(size + 2)
end

local since, at = nil, 1
-- Reads one stream to its end; false: its history is gone.
local function follow(conn)
	local sock, rest = conn.sock, ""
	conn:send(http.format("GET", "/v1/watch?domains=topics&" .. (since and "since=" .. since or "initial=true")))
	local status = sock:receive("*l")
	if not status or not status:find(" 200 ", 1, true) then return not (status and status:find(" 410 ", 1, true)) end
	repeat
		local line = sock:receive("*l")
	until not line or line == ""
	note("begin", since or -1)
	conn:settimeout(3)
	while true do
		local chunk = read_line(sock)
		if not chunk then return true end
		rest = rest .. chunk:sub(1, -3)
		for text in rest:gmatch("([^\n]*)\n") do
			local line = http.decode(text)
			if line.op == "error" then return line.code ~= "compacted" end
			if line.op == "put" or line.op == "delete" then
				note(line.op, line.key, line.index, line.more and 1 or 0)
			else
				note("at", line.index)
				since = line.index
			end
			if line.op == "delete" or since and line.op == "put" then
				if not line.more then since = line.index end
			end
		end
		rest = rest:match("[^\n]*$")
	end
end

while true do
	at = at % #ports + 1
	local conn = http.connect(ports[at], 4)
	if conn then
		if not follow(conn) then since = nil end
		conn:close()
	end
	proc.sleep_ms(20)
end
