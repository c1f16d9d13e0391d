-- The tally must not let a failure pass: each way in which a program can fail is tried on it.

local function run(plan)
	local dir = assert(io.popen("mktemp -d")):read("l")
	local file = assert(io.open(dir .. "/plan", "w"))
	file:write(plan, "\n")
	file:close()
	local pipe = assert(io.popen("lua5.4 tests/tally.lua -j 2 -o " .. dir .. " " .. dir .. "/plan 2>&1; echo status $?"))
	local out = pipe:read("a")
	pipe:close()
	os.execute("rm -rf " .. dir)
	return out:match("([^\n]*)\nstatus (%d+)\n$")
end

local CMOCKA = "printf '[==========] 3 test(s) run.\\n[  PASSED  ] 3 test(s).\\n'"

describe("tally", function()
	-- The sums and the form of the last line.
	it("adds up what the programs say", function()
		local line, status = run(table.concat({
			"cmocka 5 a " .. CMOCKA,
			"busted 5 b echo '2 successes / 0 failures / 0 errors / 0 pending : 0.1 seconds'",
			"counts! 5 c echo '7 passed, 0 failed'",
			"exit 5 d true",
		}, "\n"))
		assert.equal("13 passed, 0 failed", line)
		assert.equal("0", status)
	end)

	-- One case for each way to fail: said by the output, by the status, or by what is missing.
	local failures = {
		["a failed cmocka test"] = { "cmocka 5 a printf '[==========] 3 test(s) run.\\n[  PASSED  ] 2 test(s).\\n"
			.. "[  FAILED  ] 1 test(s), listed below:\\n'; exit 1", "2 passed, 1 failed" },
		["a skipped cmocka test"] = { "cmocka 5 a printf '[==========] 3 test(s) run.\\n[  PASSED  ] 2 test(s).\\n"
			.. "[  SKIPPED ] 1 test(s), listed below:\\n'", "2 passed, 1 failed" },
		["a leak found after all tests passed"] = { "cmocka 5 a " .. CMOCKA .. "; exit 23", "3 passed, 1 failed" },
		["a crash"] = { "cmocka 5 a kill -SEGV $$", "0 passed, 1 failed" },
		["a program that says nothing"] = { "cmocka 5 a true", "0 passed, 1 failed" },
		["a program that tests nothing"] = { "counts 5 a echo '0 passed, 0 failed'", "0 passed, 1 failed" },
		["a program that is not there"] = { "cmocka 5 a /nonexistent/program", "0 passed, 1 failed" },
		["a program that hangs"] = { "cmocka 1 a " .. CMOCKA .. "; sleep 20", "3 passed, 1 failed" },
		["a busted error"] = { "busted 5 a echo '2 successes / 1 failure / 1 error / 0 pending : 0 seconds'; exit 2",
			"2 passed, 2 failed" },
		["a pending busted test"] = { "busted 5 a echo '2 successes / 0 failures / 0 errors / 1 pending : 0 seconds'",
			"2 passed, 1 failed" },
		["a bad exit status"] = { "exit 5 a false", "0 passed, 1 failed" },
	}
	for what, case in pairs(failures) do
		it("counts " .. what, function()
			local line, status = run(case[1])
			assert.equal(case[2], line)
			assert.equal("1", status)
		end)
	end
end)
