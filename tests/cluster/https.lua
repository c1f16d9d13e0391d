-- tests/cluster/https.lua - one request over TLS by the command curl: lua-socket knows no TLS.
--
--   local r, err = https.request(port, "POST", "/v1/topics", { name = "a" }, headers, timeout_s, { cacert = FILE })
--
-- The answer has the shape of cluster.http's.

local http = require "cluster.http"

local https = {}

local function quoted(text) return "'" .. tostring(text):gsub("'", "'\\''") .. "'" end

-- options: cacert (a file), extra (further words for curl)
function https.request(port, method, target, body, headers, timeout_s, options)
	if type(body) == "table" then body = http.encode(body) end
	local words = { "curl -sS -i --http1.1 -m", timeout_s or 15, "-X", method, "--cacert", quoted(options.cacert),
		options.extra or "" }
	if method == "HEAD" then words[#words + 1] = "-I" end
	if body then
		words[#words + 1] = "-H 'Content-Type: application/json' --data-binary " .. quoted(body)
	end
	for name, value in pairs(headers or {}) do words[#words + 1] = "-H " .. quoted(name .. ": " .. value) end
	words[#words + 1] = quoted("https://127.0.0.1:" .. port .. target) .. " 2>&1"
	local pipe = assert(io.popen(table.concat(words, " ")))
	local text = pipe:read("a")
	if not pipe:close() then return nil, "curl: " .. text end
	local head, rest = text:match("^(.-)\r\n\r\n(.*)$")
	local status = head and head:match("^HTTP/1%.1 (%d%d%d)")
	if not status then return nil, "no answer: " .. text end
	local r = { status = tonumber(status), headers = {}, body = rest }
	for name, value in head:gmatch("\r\n([^:]+):%s*([^\r]*)") do r.headers[name:lower()] = value end
	if (r.headers["content-type"] or ""):find("^application/json") and rest ~= "" then
		local why
		r.json, why = http.decode(rest)
		if why then return nil, why end
	end
	return r
end

return https
