-- Lint must fail where it should: each rule is broken on purpose in a small tree of its own.

-- Writes `files` (path -> text) to a fresh folder and runs lint on it: output, true when it found nothing.
local function lint(files)
	local root = io.popen("mktemp -d"):read("l")
	for path, text in pairs(files) do
		os.execute("mkdir -p " .. root .. "/" .. path:match("^(.*)/"))
		local file = assert(io.open(root .. "/" .. path, "w"))
		file:write(text)
		file:close()
	end
	local pipe = io.popen("lua5.4 tests/lint/lint.lua " .. root .. " 2>&1")
	local out = pipe:read("a")
	local ok = pipe:close()
	os.execute("rm -rf " .. root)
	return out, ok == true
end

local function header(path)
	local guard = path:upper():gsub("[^%w]", "_")
	return "#ifndef " .. guard .. "\n#define " .. guard .. "\n#endif\n"
end

-- A tree that keeps every rule; `extra` files are added to it.
local function tree(extra)
	local files = {}
	for _, folder in ipairs { "base", "model", "raft", "wal", "store", "net", "fsm", "node", "service", "http",
		"control", "cli" } do
		files["src/" .. folder .. "/x.h"] = header(folder .. "/x.h")
		files["src/" .. folder .. "/README.md"] = "x\n"
	end
	files["src/README.md"] = "x\n"
	files["src/raft/raft_internal.h"] = header("raft/raft_internal.h")
	files["src/base/log.h"] = header("base/log.h")
	files["src/threads.h"] = header("threads.h")
	files["src/raft/x.c"] = '#include "raft/x.h"\n\n#include <string.h>\n\n#include "base/x.h"\n'
	files["src/node/x.c"] = '#include <pthread.h>\n\n#include "fsm/x.h"\n#include "net/x.h"\n#include "raft/x.h"\n'
	files["src/store/x.c"] = "#include <lmdb.h>\n#include <sys/stat.h>\n"
	files["src/control/x.c"] = '#include <lua.h>\n\n#include "service/x.h"\n'
	files["src/control/view.c"] = '#include "fsm/x.h"\n'
	files["src/veenad.c"] = '#include <ev.h>\n\n#include "control/x.h"\n#include "http/x.h"\n#include "threads.h"\n'
	files["src/http/x.c"] = '/* strcpy(a, b) in a comment */\nconst char *s = "time(0)";\nint t = x->time(0) + x.rand();\n'
	for path, text in pairs(extra or {}) do files[path] = text end
	return files
end

describe("lint", function()
	it("finds nothing in a tree that keeps the rules", function()
		local out, ok = lint(tree())
		assert.equal("", out)
		assert.is_true(ok)
	end)

	-- what is broken -> file, its text, what the finding must say
	local cases = {
		["an arrow upward"] = { "src/model/y.c", '#include "store/x.h"\n', "src/model/y.c:1: wrong arrow" },
		["an arrow sideways"] = { "src/net/y.c", '#include "fsm/x.h"\n', "src/net/y.c:1: wrong arrow" },
		["an arrow from http to control"] = { "src/http/y.c", '#include "control/x.h"\n', "wrong arrow" },
		["an arrow from service to http"] = { "src/service/y.c", '\n\n#include "http/x.h"\n', "y.c:3: wrong arrow" },
		["an arrow in a header"] = { "src/base/y.h", '#ifndef BASE_Y_H\n#define BASE_Y_H\n#include "model/x.h"\n#endif\n',
			"src/base/y.h:3: wrong arrow" },
		["raft on something but base"] = { "src/raft/y.c", '#  include "model/x.h"\n', "wrong arrow" },
		["wal on raft"] = { "src/wal/y.c", '#include "raft/x.h"\n', "wrong arrow" },
		["the specs' view on node"] = { "src/control/view_topic.c", '#include "node/x.h"\n', "wrong arrow" },
		["a folder on the daemon"] = { "src/http/y.c", '#include "threads.h"\n', "wrong arrow" },
		["another folder's internals"] = { "src/node/y.c", '#include "raft/raft_internal.h"\n', "internal to raft/" },
		["a header that is not there"] = { "src/node/y.c", '#include "raft/nothing.h"\n', "there is no src/raft/nothing.h" },
		["a path with dots"] = { "src/node/y.c", '#include "../raft/x.h"\n', "relative to src/" },
		["logging in raft"] = { "src/raft/y.c", '#include "base/log.h"\n', "does without" },
		["LMDB out of store"] = { "src/fsm/y.c", "#include <lmdb.h>\n", "src/fsm/y.c:1: out of its room: <lmdb.h>" },
		["Lua out of control and cli"] = { "src/service/y.c", "#include <lauxlib.h>\n", "out of its room" },
		["libev in node"] = { "src/node/y.c", "#include <ev.h>\n", "out of its room" },
		["msgpack in http"] = { "src/http/y.c", "#include <msgpack/pack.h>\n", "out of its room" },
		["the HTTP parser in service"] = { "src/service/y.c", "#include <http_parser.h>\n", "out of its room" },
		["OpenSSL in http"] = { "src/http/y.c", "#include <openssl/ssl.h>\n", "out of its room" },
		["crypt in http"] = { "src/http/y.c", "#include <crypt.h>\n", "out of its room" },
		["curl in the daemon"] = { "src/veenad.c", "#include <curl/curl.h>\n", "out of its room" },
		["xxhash in node"] = { "src/node/y.c", "#include <xxhash.h>\n", "out of its room" },
		["a library nobody knows"] = { "src/http/y.c", "#include <jansson.h>\n", "no known library" },
		["a thread in raft"] = { "src/raft/y.c", "#include <pthread.h>\n", "raft/ is pure" },
		["a clock in raft"] = { "src/raft/y.c", "#include <time.h>\n", "raft/ is pure" },
		["strcpy"] = { "src/http/y.c", "void f(void) { strcpy(a, b); }\n", "strcpy()" },
		["strcat"] = { "src/http/y.c", "void f(void) { strcat (a, b); }\n", "strcat()" },
		["sprintf"] = { "src/http/y.c", "int n = sprintf(a, \"x\");\n", "sprintf()" },
		["rand"] = { "src/http/y.c", "int n = rand();\n", "rand()" },
		["time"] = { "src/http/y.c", "int n = 1 + time(NULL);\n", "time()" },
		["rand in a test"] = { "tests/unit/y.c", "int n = rand();\n", "rand()" },
		["malloc out of base"] = { "src/http/y.c", "char *p = malloc(1);\n", "malloc()" },
		["a wrong guard"] = { "src/http/y.h", "#ifndef Y_H\n#define Y_H\n#endif\n", "HTTP_Y_H" },
		["a file without end"] = { "src/http/y.c", ("int x;\n"):rep(701), "701 lines" },
		["a line without end"] = { "src/http/y.c", "int " .. ("x"):rep(130) .. ";\n", "columns" },
		["something unfinished"] = { "src/http/y.c", "/* TO" .. "DO: later */\n", "unfinished" },
		["a folder without a row"] = { "src/misc/y.c", "int x;\n", "no row" },
		["a folder without a README"] = { "tests/unit/y.c", "int x;\n", "tests/unit/README.md:1: missing" },
	}
	for what, case in pairs(cases) do
		it("finds " .. what, function()
			local out, ok = lint(tree { [case[1]] = case[2] })
			assert.is_false(ok)
			assert.truthy(out:find(case[3], 1, true), "expected '" .. case[3] .. "' in:\n" .. out)
		end)
	end

	-- What lint lets pass in base/ is what base/ is for.
	it("lets base/ use the machine", function()
		local out, ok = lint(tree { ["src/base/y.c"] = "long n = time(NULL) + rand();\nchar *p = malloc(1);\n" })
		assert.equal("", out)
		assert.is_true(ok)
	end)
end)
