-- The REPL at a terminal: tmux is the terminal, its screen is what a person sees.

local harness = require "cluster.harness"
local proc, http_null = harness.proc, harness.http.null

local VEENA = os.getenv("VEENA") or "build/veena"

local Screen = {}
Screen.__index = Screen

local function shell(command)
	local pipe = assert(io.popen(command .. " 2>&1"))
	local text = pipe:read("a")
	pipe:close()
	return text
end

local function open_screen(c, columns, lines)
	local self = setmetatable({ name = "veena-" .. proc.free_ports(1)[1], c = c }, Screen)
	local urls = {}
	for i, node in ipairs(c.nodes) do urls[i] = "http://127.0.0.1:" .. node.http_port end
	shell(("env -u TMUX HOME=%s tmux -L %s -f /dev/null new-session -d -x %d -y %d 'NO_COLOR=1 %s --url %s'"):format(
		c.dir, self.name, columns, lines, VEENA,
		table.concat(urls, ",")))
	return self
end

function Screen:close() shell(("tmux -L %s kill-server"):format(self.name)) end
function Screen:text() return shell(("tmux -L %s capture-pane -p"):format(self.name)) end
function Screen:keys(...)
	for _, key in ipairs { ... } do shell(("tmux -L %s send-keys '%s'"):format(self.name, key)) end
end
function Screen:type(text) shell(("tmux -L %s send-keys -l '%s'"):format(self.name, text)) end
function Screen:line(text)
	self:type(text)
	self:keys("Enter")
end

function Screen:wait(what)
	harness.eventually(8000, what, function()
		local text = self:text()
		return text:find(what, 1, true) ~= nil, text
	end)
end

local function with_screen(c, columns, lines, fn)
	local screen = open_screen(c, columns, lines)
	local ok, err = xpcall(fn, function(e) return e .. "\n" .. screen:text() end, screen)
	screen:close()
	if not ok then error(err, 0) end
end

local function widest(text)
	local width = 0
	for line in text:gmatch("[^\n]*") do width = math.max(width, utf8.len(line) or #line) end
	return width
end

describe("the REPL", function()
	harness.case("is a terminal's", {}, function(c)
		for _, name in ipairs { "orders", "orders-late", "mail" } do
			c:leader():post("/v1/topics", { name = name, partitions = 3,
				labels = { team = ("warehouse-"):rep(3) } }, 201)
		end
		c:settle()
		with_screen(c, 80, 24, function(s)
			s:wait("help() helps")
			-- names of functions, fields and topics
			s:type("sett")
			s:keys("Tab")
			s:line("()")
			s:wait("max_moves")
			s:type("topic\"ma")
			s:keys("Tab")
			s:line("\".partitions * 7")
			s:wait("\n21")
			s:type("topic\"or")
			s:keys("Tab", "Tab")
			s:wait("orders  orders-late")
			s:keys("C-c")
			-- a statement over lines, then the history
			s:line("for i = 1, 2 do")
			s:wait(">>")
			s:line("print(i * 111)")
			s:line("end")
			s:wait("222")
			s:line("x = 41")
			s:line("x + 1")
			s:wait("42")
			s:keys("Up", "Up", "Enter")
			s:line("x + 2")
			s:wait("43")
			-- Ctrl-C stops the call, the session stays
			s:line("while true do end")
			s:keys("C-c")
			s:wait("stopped")
			s:line("watch{ initial = true }")
			s:wait("that is the state")
			s:keys("C-c")
			s:line("x + 3")
			s:wait("44")
			-- one line for an error, with a hint
			s:line("topic\"none\"")
			s:wait("topic not found (topic_not_found)")
			s:line("clear(")
			s:keys("C-c")
			-- what destroys is asked for
			s:line("topic\"mail\":delete()")
			s:wait("[y/N]")
			s:line("n")
			s:wait("nothing was done")
			-- a node goes away: the next one answers
			c.nodes[1]:stop()
			s:line("#topics()")
			s:wait("\n3")
			s:keys("C-d")
		end)
		c.nodes[1]:start()
		c:leader()
		for _, columns in ipairs { 80, 40 } do
			with_screen(c, columns, 30, function(s)
				s:wait("help()")
				s:line("topics()")
				s:wait("orders-late")
				if columns == 40 then s:wait("columns more") end
				s:wait("NAME")
				assert.is_true(widest(s:text()) <= columns)
				local rows = select(2, s:text():gsub("standalone", ""))
				assert.are.equal(columns == 80 and 3 or 0, columns == 80 and rows or 0)
				s:keys("Up")
				s:wait("> topics()")
				s:keys("C-c", "C-d")
			end)
		end
		-- longer than the screen: paged
		with_screen(c, 80, 10, function(s)
			s:wait("help()")
			s:line("help()")
			s:wait("Every command is a function")
			s:keys("q")
			s:line("6 * 7")
			s:wait("42")
		end)
	end)

	harness.case("reads a pipe, a chunk and a file", { start = true }, function(c)
		local url = "http://127.0.0.1:" .. c:leader().http_port
		assert.are.equal("42\n", shell(("printf 'x = 6\\nx * 7\\n' | %s --url %s repl"):format(VEENA, url)))
		assert.are.equal("2\n", shell(("%s --url %s -e '1 + 1'"):format(VEENA, url)))
		assert.are.equal("created a with 3 partitions\n",
			shell(("%s --url %s -e 'topics.create(\"a\", { partitions = 3 })'"):format(VEENA, url)))
		assert.are.equal("a\n", shell(("%s --url %s -e 'topics()[1].name'"):format(VEENA, url)))
		local text = shell(("(%s --url %s -e 'topics.create()' 2>&1; echo $?)"):format(VEENA, url))
		assert.is_truthy(text:find("is missing.*\n2\n$"))
	end)

	harness.case("is at one with the command: dump, load, settings, completion", {}, function(c)
		local leader, path = c:leader(), c.dir .. "/dump"
		local function veena(rest)
			return shell(("%s --url http://127.0.0.1:%d %s"):format(VEENA, leader.http_port, rest))
		end
		leader:post("/v1/topics", { name = "orders", partitions = 3, labels = { a = "b" }, schema = { type = "object" } },
			201)
		leader:post("/v1/topics", { name = "late", partitions = 3, parent = "orders", fanout_delay_ms = 5 }, 201)
		leader:patch("/v1/settings", { max_moves = 3 }, 200)
		local before = veena("dump")
		local file = assert(io.open(path, "w"))
		file:write(before)
		file:close()
		assert.are.equal("nothing to do\n", veena("load " .. path))
		leader:patch("/v1/topics/orders", { retention_ms = 7200000, labels = { a = http_null, c = "d" } }, 200)
		assert.are.equal("4\n", veena("-e 'settings.set(\"max_moves=4\")' | grep max_moves | tr -dc '0-9\\n'"))
		local would = veena("load --dry-run " .. path)
		assert.is_truthy(would:find("would alter topic orders", 1, true))
		assert.is_truthy(would:find("would set max_moves to 3", 1, true))
		assert.are_not.equal(before, veena("dump"))
		veena("load " .. path)
		assert.are.equal(before, veena("dump"))
		-- a follower answers with the leader's flags, for what is not patched
		assert.are.equal(leader:get("/v1/settings", 200).body, c:follower():get("/v1/settings", 200).body)
		leader:patch("/v1/settings", { max_moves = http_null }, 200)
		assert.are.equal(8, c:follower():get("/v1/settings", 200).json.max_moves)
		assert.are.equal("max_moves", leader:patch("/v1/settings", { max_moves = -1 }, 400).json.field)
		local words = shell(([[%s completion bash > %s && bash -c '. %s; COMP_WORDS=(veena topics cr); COMP_CWORD=2; _veena;
			echo "${COMPREPLY[@]}"']]):format(VEENA, path, path))
		assert.are.equal("create\n", words)
	end)
end)
