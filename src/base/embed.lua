-- Writes to standard output the C source behind base/embed.h: each file named as argument, as bytes.
-- One string literal for each line of input keeps the output readable in a debugger and in a diff.

local function literal(line)
	return '"' .. line:gsub('[%c"\\\128-\255?]', function(c)
		if c == "\n" then return "\\n" end
		return string.format("\\%03o", c:byte())
	end) .. '"'
end

local names = {}
for i = 1, #arg do names[i] = arg[i] end
table.sort(names)

local out = { '#include "base/embed.h"', "" }
local function put(...) out[#out + 1] = string.format(...) end

put("const size_t embedded_file_count = %d;", #names)
put("")
put("const struct embedded_file embedded_files[] = {")
for _, name in ipairs(names) do
	local file = assert(io.open(name, "rb"))
	local bytes = assert(file:read("a"))
	file:close()
	put("\t{ %s,", literal(name))
	for line in bytes:gmatch("[^\n]*\n?") do
		if line ~= "" then put("\t  %s", literal(line)) end
	end
	if bytes == "" then put('\t  ""') end
	put("\t  , %d },", #bytes)
end
if #names == 0 then put("\t{ 0 },") end
put("};")

io.write(table.concat(out, "\n"), "\n")
