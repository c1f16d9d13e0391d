-- tests/lint/faults.lua - which test stands for which known fault: the table in tests/README.md.
--
--   lua5.4 tests/lint/faults.lua ROOT           fails when the table is not what the tests say
--   lua5.4 tests/lint/faults.lua ROOT --write   writes it
--
-- A test names the fault it stands for by its id ("F31") in its name or in the comment above it. The faults are kinds
-- that broke systems of this sort in the field; their list is here, so that one without a test is seen.

local FAULTS = {
	{ "F01", "an entry of an earlier term counted as committed" },
	{ "F02", "term and vote written apart" },
	{ "F03", "a vote cleared, or a late answer counted, in a pre-vote" },
	{ "F04", "a log device that hangs or fails under a leader" },
	{ "F05", "a network that passes some packets" },
	{ "F06", "a frozen leader that acts on when it wakes" },
	{ "F07", "leadership handed to one that is behind, dead or unknown" },
	{ "F08", "messages older than the log's start" },
	{ "F09", "a removed server that comes back with a higher term" },
	{ "F10", "voters removed until no quorum is left" },
	{ "F11", "a new voter nobody can reach" },
	{ "F12", "a node back with another disk or address" },
	{ "F13", "a configuration that was appended and taken back" },
	{ "F14", "a new node that forms a cluster of its own" },
	{ "F15", "index and effects in two transactions" },
	{ "F16", "a snapshot or database that is cut or has a flipped bit" },
	{ "F17", "a log that is cut faster than a follower loads its image" },
	{ "F18", "a crash while an image is taken in" },
	{ "F19", "a directory that was not synced" },
	{ "F20", "a torn tail, or damage before it" },
	{ "F21", "acknowledged before it was durable" },
	{ "F22", "going on after a failed write" },
	{ "F23", "full storage that does not take deletes" },
	{ "F24", "a slow reader that keeps old pages" },
	{ "F25", "churn that makes commits slow" },
	{ "F26", "entries that an older release cannot read" },
	{ "F27", "a refused start that has changed files" },
	{ "F28", "another's directory, another cluster's node" },
	{ "F29", "a rolling restart that goes on too early" },
	{ "F30", "a new leader that has not applied its log" },
	{ "F31", "strong reads that are old" },
	{ "F32", "watchers that lose events where history ends" },
	{ "F33", "an index that goes back between servers" },
	{ "F34", "a new leader that calls everybody dead" },
	{ "F35", "a balancer that overshoots" },
	{ "F36", "moves and drains that never end" },
	{ "F37", "live data taken for orphans" },
	{ "F38", "a topic made again under its name" },
	{ "F39", "one call into C that runs for minutes" },
	{ "F40", "a script that catches its own end" },
	{ "F41", "ways out of the sandbox" },
	{ "F42", "script memory without a bound" },
	{ "F43", "a reload that leaves half of the new" },
	{ "F44", "requests that two programs frame in two ways" },
	{ "F45", "slow clients that hold connections" },
	{ "F46", "password hashes that stall everything" },
	{ "F47", "a timeout read as a failure" },
	{ "F48", "a forwarded request that knows less" },
	{ "F49", "memory without a bound under lists and watchers" },
	{ "F50", "a wildcard announced as an address" },
}
local BEGIN, END = "<!-- faults: written by tests/lint/faults.lua -->\n", "<!-- /faults -->\n"

local root, write = arg[1], arg[2] == "--write"
if not root then
	io.stderr:write("usage: faults.lua ROOT [--write]\n")
	os.exit(2)
end

local function read(path)
	local file = assert(io.open(root .. "/" .. path, "rb"))
	local text = file:read("a")
	file:close()
	return text
end

-- The files that name each id, sorted.
local function find_tests()
	local found = {}
	local pipe = assert(io.popen("cd '" .. root:gsub("'", "'\\''")
		.. "' && find tests spec -name '*.[ch]' -o -name '*.lua' -o -path 'tests/raft/*.txt' | LC_ALL=C sort"))
	for path in pipe:lines() do
		if not path:find("^tests/lint/") then
			local seen = {}
			for id in read(path):gmatch("%f[%w]F%d%d%f[%W]") do
				if not seen[id] then
					seen[id] = true
					found[id] = found[id] or {}
					table.insert(found[id], "`" .. path:gsub("^tests/", "") .. "`")
				end
			end
		end
	end
	pipe:close()
	return found
end

local found, lines, known = find_tests(), { "| id | what broke | tests |\n|---|---|---|\n" }, {}
for _, fault in ipairs(FAULTS) do
	local id, what = fault[1], fault[2]
	known[id] = true
	lines[#lines + 1] = string.format("| %s | %s | %s |\n", id, what,
		found[id] and table.concat(found[id], ", ") or "**none**")
end
for id in pairs(found) do
	if not known[id] then
		print("a test names " .. id .. ", which tests/lint/faults.lua does not know")
		os.exit(1)
	end
end

local readme = read("tests/README.md")
local from, to = select(2, readme:find(BEGIN, 1, true)), readme:find(END, 1, true)
if not from or not to then
	print("tests/README.md:1: no place for the table of faults; put the two marks of tests/lint/faults.lua there")
	os.exit(1)
end
local wanted = readme:sub(1, from) .. table.concat(lines) .. readme:sub(to)
if wanted == readme then os.exit(0) end
if not write then
	print("tests/README.md:1: the table of faults is not what the tests say; run make fault-table")
	os.exit(1)
end
local file = assert(io.open(root .. "/tests/README.md", "wb"))
assert(file:write(wanted))
assert(file:close())
