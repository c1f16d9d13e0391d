-- The checks of the table of faults and of hardened programs must fail where they should.

local function run(command)
	local pipe = io.popen(command .. " 2>&1")
	local out = pipe:read("a")
	return out, pipe:close() == true
end

local function in_folder(fn)
	local root = io.popen("mktemp -d"):read("l")
	local ok, err = pcall(fn, root)
	os.execute("rm -rf " .. root)
	if not ok then error(err, 0) end
end

local function write(path, text)
	local file = assert(io.open(path, "w"))
	file:write(text)
	file:close()
end

describe("the table of faults", function()
	it("is refused when a test comes, goes, or names no known fault", function()
		in_folder(function(root)
			os.execute("mkdir -p " .. root .. "/tests/unit " .. root .. "/spec")
			write(root .. "/tests/README.md", "x\n<!-- faults: written by tests/lint/faults.lua -->\n<!-- /faults -->\ny\n")
			write(root .. "/tests/unit/test_a.c", "/* stale (F31) */\n")
			local check = "lua5.4 tests/lint/faults.lua " .. root
			assert.is_false(select(2, run(check)))
			assert.is_true(select(2, run(check .. " --write")))
			assert.is_true(select(2, run(check)))
			local text = io.open(root .. "/tests/README.md"):read("a")
			assert(text:find("| F31 | strong reads that are old | `unit/test_a.c` |", 1, true))
			assert(text:find("^x\n") and text:find("y\n$"))
			write(root .. "/tests/unit/test_a.c", "/* nothing */\n")
			local out, ok = run(check)
			assert.is_false(ok)
			assert(out:find("make fault-table", 1, true))
			write(root .. "/tests/unit/test_a.c", "/* F99 */\n")
			assert(run(check):find("F99", 1, true))
		end)
	end)
end)

describe("the check of programs", function()
	it("misses nothing that the flags would have given", function()
		in_folder(function(root)
			write(root .. "/a.c", '#include <stdio.h>\n#include <string.h>\nint main(int n, char **a)\n{\n\tchar b[64];\n'
				.. '\tmemcpy(b, a[0], (size_t)n);\n\treturn puts(b);\n}\n')
			local hard = "-O2 -fPIC -D_FORTIFY_SOURCE=2 -fstack-protector-strong -pie -Wl,-z,relro,-z,now,-z,noexecstack "
			for flags, lacks in pairs {
				[hard] = false,
				[hard:gsub("%-pie", "-no-pie")] = "-pie",
				[hard:gsub("%-z,relro,", "-z,norelro,")] = "relro",
				[hard:gsub("%-z,now", "-z,lazy")] = "-z now",
				[hard:gsub("noexecstack", "execstack")] = "stack without code",
				[hard:gsub("%-fstack%-protector%-strong", "-fno-stack-protector")] = "guarded",
				[hard:gsub("SOURCE=2", "SOURCE=0")] = "checked copies",
			} do
				assert(os.execute("gcc -w -U_FORTIFY_SOURCE " .. flags .. " -o " .. root .. "/a " .. root .. "/a.c"))
				local out, ok = run("lua5.4 tests/lint/hardened.lua " .. root .. "/a")
				assert.equal(not lacks, ok, flags .. ": " .. out)
				assert(not lacks or out:find(lacks, 1, true), out)
			end
			assert.is_false(select(2, run("lua5.4 tests/lint/hardened.lua")))
		end)
	end)
end)
