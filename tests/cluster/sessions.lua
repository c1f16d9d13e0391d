-- tests/cluster/sessions.lua - did a client that remembers (session.lua) read its writes, and never anything older?
--
--   local broken, reads = sessions.check(lines)      nil, or a sentence; lines as session.lua writes them

local sessions = {}

-- The value a read must show: at least the newest write that was acknowledged and the newest value read; at most the
-- newest that was sent. An index never goes back, since each read asks for one no lower than all seen.
function sessions.check(lines)
	local least, most, index, reads = 0, 0, 0, 0
	for i, line in ipairs(lines) do
		local kind, value, at = line:match("^(%l+) (%d+) (%d+)$")
		value, at = math.tointeger(tonumber(value)), math.tointeger(tonumber(at))
		if kind == "write" then
			least, most = math.max(least, value), math.max(most, value)
			if at <= index then return string.format("line %d: a write at %d behind an answer at %d", i, at, index) end
			index = at
		elseif kind == "unknown" then
			most = math.max(most, value)
		elseif kind == "read" then
			reads = reads + 1
			if value < least then return string.format("line %d: read %d, known was %d", i, value, least) end
			if value > most and most > 0 then return string.format("line %d: read %d, which nobody wrote", i, value) end
			if at < index then return string.format("line %d: read at index %d behind one at %d", i, at, index) end
			least, index = value, at
		end
	end
	return nil, reads
end

return sessions
