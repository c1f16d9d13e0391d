-- tests/cluster/slopes.lua - does something grow with time?
--
--   local slope = slopes.fit(samples)               samples: list of { seconds, value }; least squares, per second
--   local grows, by = slopes.judge(samples, room)   by: growth over the time sampled; grows: more than `room`
--
-- The first fifth is left out: what fills once (pools, caches, the first segments) is no growth.

local slopes = {}

function slopes.fit(samples)
	local n, sx, sy, sxx, sxy = #samples, 0, 0, 0, 0
	for _, s in ipairs(samples) do
		sx, sy, sxx, sxy = sx + s[1], sy + s[2], sxx + s[1] * s[1], sxy + s[1] * s[2]
	end
	local spread = n * sxx - sx * sx
	return spread == 0 and 0 or (n * sxy - sx * sy) / spread
end

function slopes.settled(samples)
	return table.move(samples, #samples // 5 + 1, #samples, 1, {})
end

function slopes.judge(samples, room)
	local settled = slopes.settled(samples)
	local by = slopes.fit(settled) * (settled[#settled][1] - settled[1][1])
	return by > room, by
end

return slopes
