-- tests/lint/lint.lua - what no compiler checks about the shape of the tree.
--
--   lua5.4 tests/lint/lint.lua ROOT
--
-- Arrows: a folder of src/ includes only what stands below it. Rooms: an outside library is included only where it
-- lives, and one without a room nowhere. Bans: calls that have a safe sibling or belong to base/. Forms: header
-- guards, file length, a README in each folder. One line for each finding, "file:line: what, and what to do"; exit
-- status 1 when there was one.

-- ---- the rules ----

-- Rows from the bottom up. A folder may include the rows below its own and itself; `daemon` is src/*.[ch].
local ROWS = {
	{ "base" },
	{ "model" },
	{ "raft", "wal", "store", "bbolt" },
	{ "net", "fsm" },
	{ "node" },
	{ "service" },
	{ "http", "control" },
	{ "daemon", "cli" },
}

-- Narrower than the rows. The control files named here are linked into the specs' module, without node and service.
local ONLY = {
	{ files = "^raft/", may = { base = true } },
	{ files = "^wal/", may = { base = true } },
	{ files = "^control/view", may = { fsm = true, store = true, model = true, base = true } },
	{ files = "^control/intent", may = { fsm = true, store = true, model = true, base = true } },
	{ files = "^control/sandbox", may = { fsm = true, store = true, model = true, base = true } },
	{ files = "^control/spec", may = { fsm = true, store = true, model = true, base = true } },
}

-- Headers of base/ that a folder promised to live without: what is replayed has no clock, and what returns codes
-- does not log.
local NOT_FOR = {
	raft = { "base/log.h", "base/clock.h", "base/wake.h", "base/queue.h", "base/pool.h" },
	model = { "base/log.h", "base/clock.h" },
}

-- Outside libraries: header (a Lua pattern) and the folders it may be included in.
local ROOMS = {
	{ "^lmdb%.h$", "store" },
	{ "^lua%.h$", "control", "cli" },
	{ "^lauxlib%.h$", "control", "cli" },
	{ "^lualib%.h$", "control", "cli" },
	{ "^ev%.h$", "net", "http", "daemon" },
	{ "^msgpack", "model", "net" },
	{ "^http_parser%.h$", "http" },
	{ "^openssl/", "net", "service" },
	{ "^crypt%.h$", "service" },
	{ "^curl/", "cli" },
	{ "^histedit%.h$", "cli" },
	{ "^editline/", "cli" },
	{ "^xxhash%.h$", "fsm", "store" },
	{ "^nmmintrin%.h$", "base" },
}

-- The C library and the kernel: everywhere but in raft/.
local SYSTEM = {}
for name in ([[arpa/inet assert ctype dirent endian errno fcntl getopt inttypes limits locale math net/if netdb
	netinet/in netinet/tcp poll pthread sched signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib
	stdnoreturn string strings syslog termios time unistd wchar]]):gmatch("%S+") do
	SYSTEM[name .. ".h"] = true
end
-- raft/ has no I/O, clock or thread; stdio.h is there for snprintf.
local RAFT_SYSTEM = {}
for name in ("assert inttypes limits stdarg stdbool stddef stdint stdio stdlib string"):gmatch("%S+") do
	RAFT_SYSTEM[name .. ".h"] = true
end

-- Calls and what to use instead. Everywhere but in base/, also in tests.
local BANS = {
	strcpy = "use snprintf or struct buf",
	strcat = "use snprintf or struct buf",
	strncat = "use snprintf or struct buf",
	sprintf = "use snprintf or buf_printf",
	vsprintf = "use vsnprintf or buf_printf",
	gets = "use fgets",
	strtok = "use strtok_r or strchr",
	rand = "use base/rand.h: one seed must decide everything",
	srand = "use base/rand.h: one seed must decide everything",
	random = "use base/rand.h: one seed must decide everything",
	time = "use base/clock.h: the simulator owns the clock",
}
-- In src/ only: base/ is the one place that knows the machine's memory, clocks and dice. realloc is not here, since
-- Lua's allocator needs one that may fail.
local SRC_BANS = {
	malloc = "use base/mem.h",
	calloc = "use base/mem.h",
	strdup = "use base/mem.h",
	strndup = "use base/mem.h",
	gettimeofday = "use base/clock.h",
	clock_gettime = "use base/clock.h",
	getrandom = "use base/rand.h",
}

local MAX_LINES = { src = 700, tests = 900 }
local MAX_COLUMNS = 120

-- ---- reading the tree ----

local root = arg[1]
if not root then
	io.stderr:write("usage: lint.lua ROOT\n")
	os.exit(2)
end

local findings = 0
local function find(file, line, ...)
	findings = findings + 1
	print(string.format("%s:%d: %s", file, line, string.format(...)))
end

local row_of = {}
for row, folders in ipairs(ROWS) do
	for _, folder in ipairs(folders) do row_of[folder] = row end
end

-- Paths below ROOT, sorted, so that two runs print the same.
local function list(command)
	local paths = {}
	local pipe = assert(io.popen("cd '" .. root:gsub("'", "'\\''") .. "' && " .. command .. " | LC_ALL=C sort", "r"))
	for path in pipe:lines() do paths[#paths + 1] = path end
	pipe:close()
	return paths
end

local function read(path)
	local file = assert(io.open(root .. "/" .. path, "rb"))
	local text = file:read("a")
	file:close()
	return text
end

local function exists(path)
	local file = io.open(root .. "/" .. path, "rb")
	if file then file:close() end
	return file ~= nil
end

-- The text with comments and string contents blanked, line breaks kept: what is left is code.
local function blank(text)
	local function spaces(s) return (s:gsub("[^\n]", " ")) end
	local out, at = {}, 1
	while at <= #text do
		local from = text:find("[\"'/]", at)
		if not from then break end
		out[#out + 1] = text:sub(at, from - 1)
		local c, two = text:sub(from, from), text:sub(from, from + 1)
		local to
		if two == "/*" then
			to = select(2, text:find("*/", from + 2, true)) or #text
			out[#out + 1] = spaces(text:sub(from, to))
		elseif two == "//" then
			to = (text:find("\n", from, true) or #text + 1) - 1
			out[#out + 1] = spaces(text:sub(from, to))
		elseif c == "/" then
			to = from
			out[#out + 1] = c
		else
			to = from + 1
			while to <= #text and text:sub(to, to) ~= c and text:sub(to, to) ~= "\n" do
				to = to + (text:sub(to, to) == "\\" and 2 or 1)
			end
			out[#out + 1] = c .. spaces(text:sub(from + 1, to - 1)) .. c
		end
		at = to + 1
	end
	out[#out + 1] = text:sub(at)
	return table.concat(out)
end

-- ---- the checks ----

local function check_arrow(file, line, inside, folder, header)
	local target = header:match("^([^/]+)/") or "daemon"
	if header:find("..", 1, true) then
		return find(file, line, 'include "%s": write it relative to src/', header)
	end
	if not exists("src/" .. header) then
		return find(file, line, 'include "%s": there is no src/%s', header, header)
	end
	if target == folder then return end
	if header:find("_internal%.h$") then
		return find(file, line, 'include "%s": internal to %s/; use its public header', header, target)
	end
	for _, rule in ipairs(ONLY) do
		if inside:find(rule.files) and not rule.may[target] then
			return find(file, line, 'wrong arrow: %s may not include "%s"', inside, header)
		end
	end
	if not row_of[target] or row_of[target] >= row_of[folder] then
		return find(file, line, 'wrong arrow: %s/ may not include "%s"; only rows below it', folder, header)
	end
	for _, unwanted in ipairs(NOT_FOR[folder] or {}) do
		if header == unwanted then
			return find(file, line, '%s/ does without "%s": it neither logs nor looks at a clock', folder, header)
		end
	end
end

local function check_room(file, line, folder, header)
	for _, room in ipairs(ROOMS) do
		if header:find(room[1]) then
			for i = 2, #room do
				if room[i] == folder then return end
			end
			return find(file, line, "out of its room: <%s> belongs to %s/", header, table.concat(room, "/, ", 2))
		end
	end
	if folder == "raft" then
		if not RAFT_SYSTEM[header] then
			find(file, line, "raft/ is pure: <%s> brings I/O, a clock or threads", header)
		end
	elseif not SYSTEM[header] and not header:find("^sys/") and not header:find("^linux/") then
		find(file, line, "<%s> is of no known library: give it a room in tests/lint/lint.lua", header)
	end
end

local function check_includes(file, folder, text)
	local number = 0
	for line in (text .. "\n"):gmatch("(.-)\n") do
		number = number + 1
		local open, header = line:match('^%s*#%s*include%s*([<"])([^>"]*)[>"]')
		if open == '"' then
			check_arrow(file, number, file:sub(#"src/" + 1), folder, header)
		elseif open == "<" then
			check_room(file, number, folder, header)
		end
	end
end

local function check_bans(file, code, bans)
	local number = 0
	for line in (code .. "\n"):gmatch("(.-)\n") do
		number = number + 1
		for before, name in line:gmatch("([^%w_]?)%f[%w_]([%w_]+)%s*%f[(]%(") do
			-- A member of that name is somebody's own.
			if bans[name] and before ~= "." and before ~= ">" then find(file, number, "%s(): %s", name, bans[name]) end
		end
	end
end

local function check_form(file, text)
	local _, lines = text:gsub("\n", "\n")
	if lines > MAX_LINES[file:match("^%a+")] then find(file, lines, "%d lines: divide it; aim at 600 at most", lines) end
	if text:sub(-1) ~= "\n" then find(file, lines + 1, "no newline at the end") end
	if file:find("%.h$") then
		-- The path below src/; in tests/ the name of the file is enough.
		local want = file:gsub("^src/", ""):upper():gsub("[^%w]", "_")
		local guard = text:match("#ifndef ([%w_]+)\n#define %1\n")
		if not guard or guard ~= want and not (file:find("^tests/") and want:find("_" .. guard .. "$")) then
			find(file, 1, "the include guard should be %s", want)
		end
	end
	local number = 0
	for line in text:gmatch("(.-)\n") do
		number = number + 1
		local width = 0
		for c in line:gmatch(utf8.charpattern) do width = c == "\t" and width + 8 - width % 8 or width + 1 end
		if width > MAX_COLUMNS then find(file, number, "%d columns; %d fit", width, MAX_COLUMNS) end
		if line:find("%s$") then find(file, number, "blanks at the end of the line") end
		if line:find("%f[%w]TODO%f[%W]") or line:find("%f[%w]FIXME%f[%W]") then
			find(file, number, "unfinished: do it or say in the README what is left")
		end
	end
end

for _, file in ipairs(list("find src -name '*.[ch]' 2>/dev/null")) do
	local folder = file:match("^src/([^/]+)/") or "daemon"
	local text = read(file)
	if not row_of[folder] then
		find(file, 1, "src/%s/ has no row in tests/lint/lint.lua", folder)
	else
		check_includes(file, folder, text)
	end
	if folder ~= "base" then
		local code = blank(text)
		check_bans(file, code, BANS)
		check_bans(file, code, SRC_BANS)
	end
	check_form(file, text)
end

for _, file in ipairs(list("find tests -name '*.[ch]' 2>/dev/null")) do
	local text = read(file)
	check_bans(file, blank(text), BANS)
	check_form(file, text)
end

-- A folder is read from its README on; one that holds nothing yet needs none.
for _, dir in ipairs(list("find src tests lua policies spec contrib -maxdepth 1 -type d 2>/dev/null")) do
	if #list("find '" .. dir .. "' -maxdepth 1 -type f ! -name README.md 2>/dev/null | head -1") > 0
		and not exists(dir .. "/README.md") then
		find(dir .. "/README.md", 1, "missing: say what the folder promises and how to read it")
	end
end

if findings > 0 then
	io.stderr:write(string.format("lint: %d findings\n", findings))
	os.exit(1)
end
