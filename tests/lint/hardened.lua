-- tests/lint/hardened.lua - do the programs have what the release flags promise?
--
--   lua5.4 tests/lint/hardened.lua PROGRAM...
--
-- Position-independent, relocations read-only and resolved at start, a stack that cannot run, guarded stack frames,
-- checked copies. Exit status 1, and a line for each thing a program lacks.

local function output_of(command)
	local pipe = assert(io.popen("LC_ALL=C " .. command))
	local text = pipe:read("a")
	assert(pipe:close(), command .. " failed")
	return text
end

local missing = 0
for _, program in ipairs(arg) do
	local name = "'" .. program:gsub("'", "'\\''") .. "'"
	local text = output_of("readelf -W -h -l -d --dyn-syms " .. name)
	local stack = text:match("GNU_STACK[^\n]*") or ""
	local function demand(found, what)
		if found then return end
		missing = missing + 1
		print(program .. ": it lacks " .. what)
	end
	demand(text:find("Type:%s+DYN"), "a position-independent executable (-pie)")
	demand(text:find("GNU_RELRO", 1, true), "read-only relocations (-z relro)")
	demand(text:find("BIND_NOW", 1, true) or text:find("FLAGS_1[^\n]*NOW"), "symbols bound at start (-z now)")
	demand(stack:find("RW", 1, true) and not stack:find("RWE", 1, true), "a stack without code")
	demand(text:find("__stack_chk_fail", 1, true), "guarded stack frames (-fstack-protector-strong)")
	demand(text:find("__%w+_chk@"), "checked copies (-D_FORTIFY_SOURCE=2)")
end
os.exit(missing == 0 and #arg > 0)
