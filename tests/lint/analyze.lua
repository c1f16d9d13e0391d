-- tests/lint/analyze.lua - judges what the analyzers said: every finding must be known, every known one still there.
--
--   lua5.4 tests/lint/analyze.lua LOG...
--
-- A finding is "path:line:column: warning: text [check]"; analyze_known.lua holds a row { path, check, reason } for
-- each that was looked at and is none. Lines are left out there, since they move. Exit status 1 when the two differ.

package.path = "tests/lint/?.lua;" .. package.path

-- "path [check]" -> how many rows know it
local known = {}
for _, row in ipairs(require "analyze_known") do
	local path, check, reason = row[1], row[2], row[3]
	assert(path and check and reason, "analyze_known.lua: a row is { path, check, reason }")
	local key = path .. " [" .. check .. "]"
	known[key] = (known[key] or 0) + 1
end

local bad = 0
local function report(...)
	bad = bad + 1
	print(string.format(...))
end

-- The same finding in a header is seen from several files.
local seen = {}
for _, log in ipairs(arg) do
	for line in io.lines(log) do
		local path, at, text, check = line:match("^(%S-):(%d+:%d+): warning: (.*) %[([^%]]+)%]$")
		if path and not seen[line] then
			seen[line] = true
			path = path:match("(src/.*)$") or path
			local key = path .. " [" .. check .. "]"
			if (known[key] or 0) > 0 then
				known[key] = known[key] - 1
			else
				report("%s:%s: %s [%s]", path, at, text, check)
			end
		end
	end
end
for key, count in pairs(known) do
	if count > 0 then report("%s: %d known findings are gone: take their rows out of analyze_known.lua", key, count) end
end

if bad > 0 then os.exit(1) end
