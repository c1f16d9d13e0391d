-- tests/tally.lua - runs the programs of a plan and counts what passed and what failed.
--
--   lua5.4 tests/tally.lua [-j N] -o DIR PLAN
--
-- A line of the plan: KIND SECONDS NAME COMMAND. The kind says what a program's output must end with:
--   cmocka  its "[  PASSED  ] N test(s)." and "[  FAILED  ] N test(s)"
--   busted  "N successes / N failures / N errors / N pending"
--   counts  "N passed, N failed"
--   exit    nothing: the program is one test, and its exit status the result
-- `!` behind the kind: the program runs alone (it measures time, or uses all cores).
--
-- Two witnesses are heard, the closing line and the exit status, and the worse one counts: a program that crashes,
-- leaks, is killed for taking too long, or ends without its closing line has failed, whatever it printed before. A
-- pending test has failed too: it proves nothing. The last line is "N passed, N failed", and the exit status says
-- whether anything failed. Output goes to DIR/<name>.log and is shown when something in it failed.

local jobs, dir, plan_path = 1, nil, nil
do
	local i = 1
	while arg[i] do
		if arg[i] == "-j" then
			jobs, i = assert(math.tointeger(tonumber(arg[i + 1])), "-j takes a number"), i + 2
		elseif arg[i] == "-o" then
			dir, i = arg[i + 1], i + 2
		else
			plan_path, i = arg[i], i + 1
		end
	end
end
if not dir or not plan_path then
	io.stderr:write("usage: tally.lua [-j N] -o DIR PLAN\n")
	os.exit(2)
end

local function read_plan(path)
	local plan = {}
	for line in io.lines(path) do
		line = line:match("^%s*(.-)%s*$")
		if line ~= "" then
			local kind, alone, seconds, name, command = line:match("^(%l+)(!?)%s+(%d+)%s+(%S+)%s+(.+)$")
			assert(kind, "plan: cannot read this line: " .. line)
			plan[#plan + 1] = { kind = kind, alone = alone == "!", seconds = tonumber(seconds), name = name,
				command = command }
		end
	end
	return plan
end

local function quote(text)
	return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Each parser takes the whole output and returns passed, failed; nothing when the closing line is missing.
local parsers = {}

function parsers.cmocka(text)
	local passed, failed, groups = 0, 0, 0
	for n in text:gmatch("%[==========%] (%d+) test%(s%) run%.") do
		groups = groups + 1
		passed = passed + tonumber(n)
	end
	if groups == 0 then return end
	for n in text:gmatch("%[  FAILED  %] (%d+) test%(s%), listed below") do failed = failed + tonumber(n) end
	for n in text:gmatch("%[  SKIPPED %] (%d+) test%(s%), listed below") do failed = failed + tonumber(n) end
	for _ in text:gmatch("%[  ERROR   %] GROUP") do failed = failed + 1 end
	return passed - failed, failed
end

function parsers.busted(text)
	local passed, failed, runs = 0, 0, 0
	for ok, bad, err, pending in text:gmatch(
		"(%d+) success%l* / (%d+) failure%l* / (%d+) error%l* / (%d+) pending") do
		runs = runs + 1
		passed = passed + tonumber(ok)
		failed = failed + tonumber(bad) + tonumber(err) + tonumber(pending)
	end
	if runs > 0 then return passed, failed end
end

function parsers.counts(text)
	local passed, failed
	for p, f in text:gmatch("%f[%w](%d+) passed, (%d+) failed%f[^%w]") do passed, failed = tonumber(p), tonumber(f) end
	return passed, failed
end

function parsers.exit()
	return 0, 0
end

-- Seconds since the machine started.
local function now()
	local file = assert(io.open("/proc/uptime"))
	local seconds = file:read("n")
	file:close()
	return seconds
end

-- Starts a program; its output goes to a file, so that several can run and none blocks on a full pipe.
local function start(item)
	item.started = now()
	item.log = dir .. "/" .. item.name:gsub("[^%w._-]", "_") .. ".log"
	local inner = string.format("timeout -k 10 %d sh -c %s", item.seconds, quote(item.command))
	item.pipe = assert(io.popen(string.format("{ %s; } >%s 2>&1 </dev/null; echo $?", inner, quote(item.log)), "r"))
	return item
end

-- What an exit status means in words; nil when it is 0.
local function complaint(status, seconds)
	if status == 0 then return nil end
	if status == 124 or status == 137 then return string.format("took longer than %d s", seconds) end
	if status > 128 then return string.format("died of signal %d", status - 128) end
	return string.format("exit status %d", status)
end

local total_passed, total_failed = 0, 0

local function finish(item)
	local status = tonumber((item.pipe:read("a"):match("(%d+)%s*$"))) or 255
	local seconds = now() - item.started
	item.pipe:close()
	local file = assert(io.open(item.log, "rb"))
	local text = file:read("a")
	file:close()

	local why = complaint(status, item.seconds)
	local parse = assert(parsers[item.kind], "plan: unknown kind " .. item.kind)
	local passed, failed = parse(text)
	if not passed then
		passed, failed = 0, 0
		why = why or "ended without saying what it tested"
	elseif item.kind ~= "exit" and passed + failed == 0 then
		why = why or "tested nothing"
	end
	if item.kind == "exit" and not why then passed = 1 end
	if why and failed == 0 then failed = 1 end

	total_passed, total_failed = total_passed + passed, total_failed + failed
	if failed == 0 then
		print(string.format("ok      %-44s %4d %6.1f s", item.name, passed, seconds))
	else
		if text ~= "" then
			io.write(text)
			if text:sub(-1) ~= "\n" then io.write("\n") end
		end
		print(string.format("FAILED  %-44s %d of %d%s, %.1f s", item.name, failed, passed + failed,
			why and ": " .. why or "", seconds))
	end
	io.stdout:flush()
end

local running = {}
for _, item in ipairs(read_plan(plan_path)) do
	while #running > 0 and (item.alone or #running >= jobs or running[1].alone) do
		finish(table.remove(running, 1))
	end
	running[#running + 1] = start(item)
end
while #running > 0 do finish(table.remove(running, 1)) end

print(string.format("%d passed, %d failed", total_passed, total_failed))
os.exit(total_failed == 0)
