-- The `veena` command as a person or a script meets it: exit codes, tables, what --json prints, help.

local harness = require "cluster.harness"
local proc = harness.proc

local VEENA = os.getenv("VEENA") or "build/veena"

-- Runs the command; returns its exit code, standard output and standard error.
local function veena(words, redirect)
	local err_path = os.tmpname()
	local pipe = assert(io.popen(("%s %s </dev/null 2>%s %s"):format(VEENA, words, err_path, redirect or "")))
	local out = pipe:read("a")
	local _, _, code = pipe:close()
	local file = assert(io.open(err_path))
	local err = file:read("a")
	file:close()
	os.remove(err_path)
	return code, out, err
end

-- Must end with `code` and say each of `words` on one line of standard error.
local function refuses(code, args, ...)
	local got, out, err = veena(args)
	assert(got == code, ("`veena %s` ended with %s, not %d: %s%s"):format(args, got, code, out, err))
	assert(not err:find("fault of the command itself", 1, true), err)
	for _, word in ipairs { ... } do
		assert(err:find(word, 1, true), ("'%s' is not in: %s"):format(word, err))
	end
	return out
end

local function url_of(node)
	return "http://127.0.0.1:" .. node.http_port
end

describe("command", function()
	harness.case("does what it is asked and ends with the exit codes of the contract", { nodes = 1 }, function(c)
		local at = "--url " .. url_of(c:leader()) .. " "
		local code, out = veena(at .. "topics create orders --partitions 3")
		assert(code == 0 and out == "created orders with 3 partitions\n", out)
		code, out = veena(at .. "topics")
		assert(code == 0 and out:find("orders  3", 1, true), out)
		code, out = veena(at .. "members get n1")
		assert(code == 0 and out:match("^id +n1\nkind +server\n"), out)
		refuses(1, at .. "topics get nope", "topic not found (topic_not_found)")
		refuses(1, at .. "topics create orders", "topic_exists")
		refuses(2, at .. "topics delete orders", "--yes")
		refuses(2, at .. "topics bogus", "no command \"topics bogus\"", "topics create")
		refuses(2, at .. "topics create x --partitions 3.5", "whole number")
		refuses(2, at .. "topics alter orders", "nothing to change")
		code, out = veena(at .. "--yes topics delete orders")
		assert(code == 0 and out == "deleted orders\n", out)
	end)

	-- The verbs about members; what destroys needs --yes, and a dry run needs nothing.
	harness.case("cordons, labels, drains and gives up members", { nodes = 1 }, function(c)
		local node = c:leader()
		local at = "--url " .. url_of(node) .. " "
		local function says(words, text)
			local code, out, err = veena(at .. words)
			assert(code == 0 and out:find(text, 1, true), out .. (err or ""))
		end
		local registered = node:post("/v1/cluster/members", { id = "b1", addr = "127.0.0.1:9000" }, 201).json
		says("members label b1 rack=r1,old", "labelled b1")
		says("members get b1", "rack=r1")
		says("members cordon b1", "gets no more partitions")
		says("members get b1", "placeable  no")
		says("members uncordon b1", "may be given partitions")
		says("decommission b1 --dry-run", "decommissioning b1 would be carried out")
		refuses(2, at .. "decommission b1", "--yes")
		says("--yes decommission b1", "b1 is draining")
		says("members decommission b1 --cancel", "b1 stays")
		refuses(1, at .. "--yes decommission n1", "below_min_voters")
		says("decommission n1 --dry-run", "below_min_voters")
		refuses(1, at .. "members lost b1", "member_alive")
		node:post("/v1/cluster/members/b1/leave", { mode = "restart" }, 200,
			{ ["X-Veena-Session"] = "b1:" .. registered.session })
		refuses(1, at .. "members lost b1", "data_loss")
		refuses(2, at .. "members lost b1 --accept-data-loss", "--yes")
		says("--yes members lost b1 --accept-data-loss --reason fire", "gave up b1")
		refuses(1, at .. "members get b1", "member_not_found")
		refuses(1, at .. "--yes forget n1", "does not forget itself")
		refuses(1, at .. "--yes members forget zz", "member_not_found")
	end)

	-- The verbs about users: passwords come from files or standard input, never from the line, and are never shown.
	harness.case("makes users, gives grants, changes passwords", { nodes = 1, auth = "root's own" }, function(c)
		local function file(name, text)
			local path = c.dir .. "/" .. name
			assert(assert(io.open(path, "w")):write(text)):close()
			return path
		end
		local url = "--url " .. url_of(c:leader()) .. " "
		local admin = url .. "--user admin --password-file " .. c.dir .. "/admin-password "
		local first, second = file("first", "one\nmore"), file("second", "two\n")
		local code, out = veena(admin .. "users create ann --grant 'create:a*,b' --grant observe --user-password-file "
			.. first)
		assert(code == 0 and out == "created ann: create:a*,b observe\n", out)
		code, out = veena(admin .. "users")
		assert(code == 0 and out:match("^NAME   GRANTS +CREATED\nadmin  root  .-\nann    create:a%*,b observe  "), out)
		code, out = veena(admin .. "users get ann")
		assert(code == 0 and out:find("grants   create:a*,b observe\n", 1, true), out)
		local ann = url .. "--user ann --password-file "
		code = veena(ann .. first .. " topics create a1")
		assert(code == 0)
		refuses(1, ann .. first .. " topics create c1", "forbidden")
		refuses(1, ann .. first .. " users", "admin privileges required (forbidden)")
		code, out = veena(ann .. first .. " users passwd ann --user-password-stdin", "<" .. second)
		assert(code == 0 and out == "changed the password of ann\n", out)
		refuses(1, ann .. first .. " topics", "unauthenticated")
		code, out = veena(ann .. second .. " topics")
		assert(code == 0 and out:find("a1", 1, true), out)
		code, out = veena(admin .. "users grant ann --none")
		assert(code == 0 and out == "ann now has: no grants\n", out)
		refuses(2, admin .. "users grant ann", "--grant", "--none")
		refuses(1, admin .. "users grant ann --grant fly", "bad_field")
		refuses(1, admin .. "users grant admin --none", "root_protected")
		refuses(1, url .. "topics", "say who you are with --user NAME")
		refuses(2, admin .. "users create bob", "--user-password-file")
		refuses(2, admin .. "users delete ann", "--yes")
		code, out = veena("--yes " .. admin .. "users delete ann")
		assert(code == 0 and out == "deleted ann\n", out)
		refuses(1, "--yes " .. admin .. "users delete ann", "user_not_found")
		for _ = 1, 5 do refuses(1, url .. "--user admin --password-file " .. second .. " topics", "unauthenticated") end
		refuses(1, url .. "--user admin --password-file " .. second .. " topics", "throttled", "try again in 1")
		code, out = veena("--json " .. admin .. "users get admin")
		assert(code == 0 and out:find('"root":true', 1, true) and not out:find("hash", 1, true), out)
	end)

	-- The verbs about children, schemas and labels: tables, texts kept as they are written, refusals.
	harness.case("links topics, keeps schemas, sets labels", { nodes = 1 }, function(c)
		local at = "--url " .. url_of(c:leader()) .. " "
		local code, out = veena(at .. [[topics create orders --labels env=prod,team=a --schema '{"minimum": 1.50}']])
		assert(code == 0, out)
		code, out = veena(at .. "topics create copy --parent orders --fanout-delay-ms 60000")
		assert(code == 0, out)
		code, out = veena(at .. "topics list --label env=prod")
		assert(code == 0 and out:find("orders  3           7d         parent  env=prod team=a", 1, true), out)
		assert(not out:find("copy", 1, true), out)
		code, out = veena(at .. "topics alter orders --labels team,x=1")
		assert(code == 0, out)
		code, out = veena(at .. "topics get orders")
		assert(code == 0 and out:find("\nlabels       env=prod x=1\n", 1, true), out)
		code, out = veena(at .. "children list orders")
		assert(code == 0 and out:find("copy   1m ", 1, true), out)
		code, out = veena(at .. "children detach orders copy")
		assert(code == 0 and out == "detached copy from orders\n", out)
		refuses(1, at .. "children detach orders copy", "child_not_found")
		code, out = veena(at .. "children attach orders copy --delay-ms 1000")
		assert(code == 0 and out == "attached copy to orders\n", out)
		code, out = veena(at .. "schemas get orders")
		assert(code == 0 and out == '{"minimum":1.50}\n', out)
		code, out = veena(at .. [[topics alter orders --schema '{"minimum": 1.0}' --schema-base-version 1]])
		assert(code == 0, out)
		code, out = veena(at .. "--json schemas get copy 2")
		assert(code == 0 and out == '{"topic":"copy","version":2,"schema":{"minimum":1.0}}\n', out)
		code, out = veena(at .. "schemas list copy")
		assert(code == 0 and out:find("\n2        {", 1, true), out)
		refuses(1, at .. [[topics alter orders --schema '{"minimum": 2}']], "minimum", "bad_field")
		refuses(1, at .. "schemas get orders 3", "schema_not_found")
		refuses(2, at .. "schemas put orders /nonexistent", "/nonexistent")
		refuses(2, at .. "topics alter orders --schema '{'", "schema")
	end)

	-- Moves: set, shown, aborted; dry runs change nothing, what is wrong says so.
	harness.case("moves partitions", { nodes = 2, flags = { "--max-moves", "0" } }, function(c)
		local at = "--url 127.0.0.1:" .. c:leader().http_port .. " "
		harness.eventually(10000, "two members", function()
			return #c:leader():get("/v1/cluster/members", 200).json.members == 2
		end)
		c:leader():post("/v1/topics", { name = "a", partitions = 3 }, 201)
		local from = c:leader():get("/v1/topics/a/partitions/1", 200).json.owner_id
		local to = from == "n1" and "n2" or "n1"
		refuses(2, at .. "moves set a n2", "no TOPIC/PARTITION")
		refuses(2, at .. "moves abort", "--all")
		refuses(1, at .. "moves set a/1 " .. from, "already_owner")
		local code, out = veena(at .. "moves set a/1 " .. to .. " --dry-run")
		assert(code == 0 and out:find("would be carried out", 1, true), out)
		code, out = veena(at .. "moves set a/1 " .. to .. " --pin")
		assert(code == 0 and out:find(("from %s to %s, pinned"):format(from, to), 1, true), out)
		code, out = veena(at .. "moves")
		assert(code == 0 and out:find("a/1", 1, true), out)
		code, out = veena(at .. "moves abort a/1")
		assert(code == 0 and out:find("a/1 stays on " .. from, 1, true), out)
		refuses(1, at .. "moves abort a/1", "no_move")
		veena(at .. "moves set a/0 " .. (c:leader():get("/v1/topics/a/partitions/0", 200).json.owner_id == "n1"
			and "n2" or "n1"))
		code, out = veena(at .. "--yes moves abort --all")
		assert(code == 0 and out:find("aborted 1 moves", 1, true), out)
	end)

	-- The verbs about servers, leader and log: what they print, and how they refuse.
	harness.case("shows and changes the servers of a cluster", { nodes = 1 }, function(c)
		local node = c:leader()
		local at = "--url " .. url_of(node) .. " "
		local code, out = veena(at .. "servers")
		assert(code == 0 and out:match("\nn1  leader  0    0 ms     127.0.0.1:" .. node.cluster_port .. "  "), out)
		refuses(1, at .. "servers add n2 127.0.0.1:1", "no veenad answers at 127.0.0.1:1", "target_not_alive")
		refuses(1, at .. "servers add n2 nonsense", "cluster_addr", "bad_field")
		refuses(1, at .. "servers add n2", "no address", "member_not_found")
		code, out = veena(at .. "servers add n2 127.0.0.1:1 --dry-run")
		assert(code == 0 and out:match("^adding n2 would be refused: .*%(target_not_alive%)\n$"), out)
		code, out = veena(at .. "servers add n1 --dry-run")
		assert(code == 0 and out == "nothing would change: all is as asked\n", out)
		refuses(2, at .. "servers remove n1", "--yes")
		refuses(1, at .. "--yes servers remove n1", "below_min_voters")
		refuses(1, at .. "--yes servers remove n7", "member_not_found")
		refuses(1, at .. "transfer", "no other voter", "no_healthy_majority")
		refuses(1, at .. "servers transfer n1", "already_leader")
		code, out = veena(at .. "barrier")
		assert(code == 0 and out:match("^n1 has everything up to index %d+\n$"), out)
		code, out = veena(at .. "snapshot")
		assert(code == 0 and out:match("^n1 took a snapshot at index %d+, %d+ KiB\n$"), out)
		assert(veena(at .. "topics create orders") == 0)
		assert(veena(at .. "topics create other") == 0)
		code, out = veena(at .. "log topic orders")
		assert(code == 0 and out:match("^INDEX  TIME %(UTC%)      NODE  ACTOR      WHAT\n%d+ [^\n]*: orders %(%+3%)\n$"), out)
		code, out = veena(at .. "log --limit 2")
		assert(code == 0 and select(2, out:gsub("\n", "\n")) == 3 and out:find(": other (+3)", 1, true), out)
		code, out = veena(at .. "log --since 0 --limit 2")
		assert(code == 0 and out:find("servers: n1\n", 1, true) and out:find("a leader begins term 2", 1, true), out)
		refuses(2, at .. "log --limit 0", "--limit")
		code, out = veena("--json " .. at .. "log --since 0 --limit 1")
		assert(code == 0 and out:match('^{"entries":%[{"index":1,"term":1,"kind":"config".*"next_since":1}\n$'), out)
	end)

	-- A script that asked for JSON gets the refusal as JSON too, with its stable code.
	harness.case("prints the HTTP answer for --json, a refusal's too", { nodes = 1 }, function(c)
		local at = "--json --url " .. url_of(c:leader()) .. " "
		local _, out = veena(at .. "status")
		assert(out:match('^{"id":"n1",.*}\n$'), out)
		out = refuses(1, at .. "topics get nope", "topic not found")
		assert(out == '{"error":"topic not found","code":"topic_not_found"}\n', out)
	end)

	harness.case("fails when what it prints cannot be written", { nodes = 1 }, function(c)
		local at = "--url " .. url_of(c:leader()) .. " "
		local code = veena(at .. "status", ">/dev/full")
		assert(code == 1, code)
		for i = 1, 60 do
			assert(veena(at .. ("topics create topic-%03d-%s"):format(i, ("x"):rep(150))) == 0)
		end
		code = veena(at .. "topics list", ">/dev/full") -- more than a buffer, so an early write is what fails
		assert(code == 1, code)
		-- A reader that has seen enough is no failure.
		local _, out, err = veena(at .. "topics list", "| head -1")
		assert(out:match("^NAME") and err == "", err)
	end)

	it("says what is wrong with an address", function()
		refuses(2, "--url '' status", "--url")
		refuses(2, "--url ' , ' status", "--url")
		refuses(3, "--url http://127.0.0.1:1 status", "http://127.0.0.1:1", "VEENA_URL")
	end)

	-- Another service on the port answers 200 with a page, or with JSON of its own.
	it("does not take another service for a node", function()
		for _, body in ipairs { "<html>", "{}", "[1]" } do
			local port = proc.free_ports(1)[1]
			local server = assert(proc.spawn {
				"/usr/bin/lua5.4", "-e", ([[
				local socket = require "socket"
				local listener = assert(socket.bind("127.0.0.1", %d))
				local client = listener:accept()
				repeat local line = client:receive() until not line or line == ""
				client:send("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s")
				client:close()]]):format(port, #body, body),
			})
			harness.eventually(5000, "an answer that is refused", function()
				return veena("--url http://127.0.0.1:" .. port .. " status") == 1
			end)
			proc.wait(server, 5000)
		end
	end)

	-- A group's name helps with the whole group, though it runs its list; no line wraps in 80 columns.
	it("helps", function()
		local code, out = veena("help topics")
		assert(code == 0)
		for _, verb in ipairs { "list", "get", "create", "alter", "delete" } do
			assert(out:find("veena topics " .. verb, 1, true), out)
		end
		for _, words in ipairs { "help", "help topics", "help assignments",
			"help members", "help status", "help children", "help schemas", "help servers", "help log",
			"help barrier", "help moves", "help remotes", "help users", "help topics" } do
			code, out = veena(words)
			assert(code == 0)
			for line in out:gmatch("[^\n]+") do
				assert(#line <= 80, line)
			end
		end
		code, out = veena("help codes")
		assert(code == 0 and out:find("409     topic_changed ", 1, true), out)
		refuses(2, "help nope", "no command \"nope\"")
	end)
end)
