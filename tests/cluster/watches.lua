-- tests/cluster/watches.lua - is the picture of a watcher (watcher.lua) the truth?
--
--   local broken, events = watches.check(lines, topics, index)
--
-- `topics`: what the nodes hold (name -> true) once nothing changes any more, at `index`. Of a stream: indexes never go
-- back, and what follows from N begins behind N. At the end the picture is the nodes', unless the watcher is not there
-- yet ("behind", to ask again).

local watches = {}

local function before(lines, i)
	return " (before it: " .. table.concat(lines, "; ", math.max(1, i - 4), i - 1) .. ")"
end

function watches.check(lines, topics, index)
	local picture, fresh, at, events = {}, nil, -1, 0
	for i, line in ipairs(lines) do
		local op, name, n, more = line:match("^(%l+) (%S+) ?(%d*) ?(%d*)$")
		n = math.tointeger(tonumber(n))
		if op == "begin" then
			at = math.tointeger(tonumber(name))
			fresh = at < 0 and {} or nil
		elseif op == "at" then
			local seen = math.tointeger(tonumber(name))
			if fresh then picture, fresh = fresh, nil end
			if seen < at then return string.format("line %d: at %d behind %d%s", i, seen, at, before(lines, i)) end
			at = seen
		elseif fresh then
			fresh[name] = true -- the state comes in no order of indexes
		elseif op == "put" or op == "delete" then
			events = events + 1
			if n <= at then
				return string.format("line %d: %s %s at %d, all up to %d was given%s", i, op, name, n, at, before(lines, i))
			end
			picture[name] = op == "put" or nil
			if more == "0" then at = n end
		end
	end
	for name in pairs(topics) do
		if not picture[name] then return at < index and "behind" or name .. " was never shown" end
	end
	for name in pairs(picture) do
		if not topics[name] then return at < index and "behind" or name .. " was shown and is not there" end
	end
	return nil, events
end

return watches
