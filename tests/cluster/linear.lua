-- tests/cluster/linear.lua - was a register linearizable? For histories in which every value is written once.
--
--   local broken = linear.check(operations)     nil, or a sentence about what is wrong
--
-- An operation: { kind = "write" | "read", value =, sent =, answered = (math.huge: not known, writes only) }. A write
-- of unknown end that nobody read is as good as none. The value before the first write is a write of its own.
--
-- All operations with one value form its cluster. From the first answer in it to the last sending in it the register
-- must have held the value, if the former comes first: a "forward zone". Such zones of two values cannot overlap.
-- Otherwise all its operations overlap in a "backward zone" and the value may have been there for a moment anywhere in
-- it, unless the zone lies inside a forward one. With no read that ends before its write is sent, this is enough: P. B.
-- Gibbons and E. Korach, "Testing shared memories", SIAM J. Comput. 26 (1997).

local linear = {}

-- By value: the write, when the first operation was answered, when the last was sent.
local function clusters_of(operations)
	local clusters = {}
	local function of(value)
		clusters[value] = clusters[value] or { value = value, first_answer = math.huge, last_sent = -math.huge, reads = 0 }
		return clusters[value]
	end
	for _, op in ipairs(operations) do
		local c = of(op.value)
		if op.kind == "write" then
			if c.write then return nil, "the value " .. op.value .. " was written twice" end
			c.write = op
		else
			c.reads = c.reads + 1
			if not c.first_read_end or op.answered < c.first_read_end then c.first_read_end = op.answered end
		end
		c.first_answer = math.min(c.first_answer, op.answered)
		c.last_sent = math.max(c.last_sent, op.sent)
	end
	return clusters
end

local function zones_of(clusters)
	local forward, backward = {}, {}
	for value, c in pairs(clusters) do
		if not c.write then return nil, "the value " .. value .. " was read and never written" end
		if c.first_read_end and c.first_read_end < c.write.sent then
			return nil, "the value " .. value .. " was read before it was written"
		end
		local is_forward = c.first_answer < c.last_sent
		local zone = { value = value, from = math.min(c.first_answer, c.last_sent),
			to = math.max(c.first_answer, c.last_sent) }
		if is_forward then
			forward[#forward + 1] = zone
		elseif c.reads > 0 or c.write.answered < math.huge then
			backward[#backward + 1] = zone
		end
	end
	return forward, backward
end

-- The forward zone that begins last before `time`, by bisection.
local function last_before(forward, time)
	local low, high = 0, #forward
	while low < high do
		local middle = (low + high + 1) // 2
		if forward[middle].from < time then low = middle else high = middle - 1 end
	end
	return forward[low]
end

function linear.check(operations)
	local clusters, wrong = clusters_of(operations)
	if not clusters then return wrong end
	local forward, backward = zones_of(clusters)
	if not forward then return backward end
	table.sort(forward, function(a, b) return a.from < b.from end)
	for i = 2, #forward do
		local a, b = forward[i - 1], forward[i]
		if b.from < a.to then
			return string.format("%d was there until %.3f, %d from %.3f on, both at once", a.value, a.to, b.value, b.from)
		end
	end
	for _, zone in ipairs(backward) do
		local around = last_before(forward, zone.from)
		if around and zone.to < around.to then
			return string.format("%d was there somewhere in %.3f to %.3f, but %d was all the time from %.3f to %.3f",
				zone.value, zone.from, zone.to, around.value, around.from, around.to)
		end
	end
end

return linear
