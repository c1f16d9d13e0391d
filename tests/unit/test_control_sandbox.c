/* The sandbox: what a script can reach, what it may spend, and that nothing of a run is left for the next one.
 * Rows F39 to F42 of the fault catalogue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/sandbox.h"

static const struct sandbox_budget small_budget = { .instructions = 200000, .memory = 4u << 20, .wall_ms = 500 };

/* Runs `source` as a chunk; its result, as text, is copied to `out`. */
static int run(const char *source, char *out, size_t cap, struct sandbox_fault *fault)
{
	struct sandbox *sb = sandbox_new(&small_budget, NULL);
	const int rc = sandbox_load(sb, "t.lua", str_of(source), fault);
	if (rc == 0 && out) {
		const char *text = lua_tostring(sandbox_lua(sb), -1);
		strncpy(out, text ? text : lua_typename(sandbox_lua(sb), lua_type(sandbox_lua(sb), -1)), cap - 1);
		out[cap - 1] = '\0';
	}
	sandbox_free(sb);
	return rc;
}

static void gives_value(const char *source, const char *want)
{
	char out[256];
	struct sandbox_fault fault;
	if (run(source, out, sizeof(out), &fault) != 0)
		fail_msg("%s\n  failed: %s", source, fault.message);
	assert_string_equal(out, want);
}

static void gives_fault(const char *source, enum sandbox_fault_kind kind, const char *part)
{
	struct sandbox_fault fault;
	if (run(source, NULL, 0, &fault) == 0)
		fail_msg("%s\n  was expected to fail", source);
	if (fault.kind != kind || !strstr(fault.message, part))
		fail_msg("%s\n  gave %s: %s", source, sandbox_fault_name(fault.kind), fault.message);
}

/* The allow-listed functions do what their names say. */
static void test_allowed_functions_work(void **state)
{
	(void)state;
	gives_value("return ('ab'):rep(3, '-')", "ab-ab-ab");
	gives_value("return string.format('%05.1f|%s|%q|%d|%%', 3.14159, {}, 'a', 7)", "003.1|table|\"a\"|7|%");
	gives_value("return tostring(string.find('hello world', 'o w'))", "5");
	gives_value("return tostring(string.find('a.b', '.', 1))", "2");
	gives_value("return tostring(string.match('orders-eu', 'orders-*'))", "true");
	gives_value("return tostring(string.match('orders', '*x*'))", "false");
	gives_value("return tostring(string.match('aab', 'a?b'))", "true");
	gives_value("local t = {3, 1, 2}; table.sort(t); return table.concat(t, ',')", "1,2,3");
	gives_value("local t = {1, 2, 3}; table.insert(t, 2, 9); table.remove(t, 1); return table.concat(t, ',')",
	            "9,2,3");
	gives_value("return select('#', table.unpack({1, 2, 3})) .. ''", "3");
	gives_value("return tostring(pcall(error, 'x'))", "false");
	gives_value("local ok, e = pcall(error, {a = 1}); return e.a .. ''", "1");
	gives_value("return math.type(3) .. math.floor(2.5)", "integer2");
	gives_value("return tostring(veena.is_array({1})) .. tostring(veena.null)", "truenull");
	gives_value("return tostring(tonumber('0x10')) .. tostring(tonumber({}))", "16nil");
	gives_value("return tostring(next({}) == nil)", "true");
}

/* pairs and next go by key order, so that a run depends on nothing but its input. */
static void test_pairs_has_an_order(void **state)
{
	(void)state;
	gives_value("local o = {} for k in pairs({z = 1, a = 1, [true] = 1, [2] = 1, [1.5] = 1, m = 1}) do "
	            "o[#o + 1] = tostring(k) end return table.concat(o, ' ')",
	            "1.5 2 a m z true");
	gives_value("local t, o = {c = 1, a = 2, b = 3}, {} for k, v in pairs(t) do t[k] = nil o[#o + 1] = k .. v end "
	            "return table.concat(o) .. tostring(next(t))",
	            "a2b3c1nil");
	gives_value("local t, k, o = {b = 1, a = 1, [3] = 1}, nil, {} repeat k = next(t, k) o[#o + 1] = tostring(k) "
	            "until not k "
	            "return table.concat(o, ' ')",
	            "3 a b nil");
	gives_fault("for k in pairs({[{}] = 1}) do end", SANDBOX_FAULT_LOAD, "no order");
}

/* F41: nothing outside the list is there, by any road. */
static void test_f41_nothing_else_is_reachable(void **state)
{
	(void)state;
	static const char *const names[] = { "os",     "io",       "debug",        "load", "loadstring",     "dofile",
		                             "rawset", "rawget",   "setmetatable", "_G",   "coroutine",      "xpcall",
		                             "print",  "package",  "getmetatable", "utf8", "collectgarbage", "loadfile",
		                             "warn",   "rawequal", "rawlen" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char source[64];
		snprintf(source, sizeof(source), "return %s", names[i]);
		gives_fault(source, SANDBOX_FAULT_LOAD, "no global");
	}
	static const char *const members[] = { "string.dump",   "string.gsub", "string.gmatch", "string.pack",
		                               "string.unpack", "math.random", "table.move",    "math.randomseed",
		                               "table.pack",    "('').gsub",   "('').dump",     "('').reverse",
		                               "_ENV.os",       "_ENV._ENV" };
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		char source[160];
		snprintf(source, sizeof(source), "return tostring(select(2, pcall(function() return %s end)))",
		         members[i]);
		char out[256];
		struct sandbox_fault fault;
		assert_int_equal(run(source, out, sizeof(out), &fault), 0);
		assert_true(strcmp(out, "nil") == 0 || strstr(out, "no global"));
	}
	gives_fault("x = 1", SANDBOX_FAULT_LOAD, "local x");
	gives_fault("return require 'os'", SANDBOX_FAULT_LOAD, "no module 'os'");
	gives_fault("\x1bLua", SANDBOX_FAULT_LOAD, "binary");
}

/* F41: what one run does to its libraries, the next does not see. */
static void test_f41_each_run_starts_clean(void **state)
{
	(void)state;
	gives_value("string.rep = function() return 'evil' end; table.sort = nil; return ('a'):rep(1)", "evil");
	gives_value("local t = {2, 1}; table.sort(t); return ('a'):rep(2) .. t[1]", "aa1");
}

/* F39: work inside one C call is charged too; F40: a protected call cannot swallow the end of the budget. */
static void test_f39_f40_budget_ends_every_run(void **state)
{
	(void)state;
	static const char *const sources[] = {
		"while true do end",
		"while true do pcall(function() while true do end end) end",
		"local function f() return pcall(f) end while true do f() end",
		"local s = ('a'):rep(60000) while true do string.find(s, 'aaab') end",
		"local s = ('a'):rep(60000) return string.match(s, '*' .. ('a'):rep(30000) .. 'b')",
		"local t = {} for i = 1, 1e9 do t[i % 1000] = i pcall(table.sort, t, function() return true end) end",
		"local t = {} for i = 1, 9000 do t[i] = -i end while true do table.sort(t) end",
		"local t = {} for i = 1, 9000 do t[i] = -i end table.sort(t, function(a, b) while true do end end)",
		"local t = {} for i = 1, 10000 do t[i] = i end while true do table.insert(t, 1, 0) end",
		"local t = {} for i = 1, 3000 do t[i] = i end while true do select('#', table.unpack(t)) end",
		"local t = {} for i = 1, 9000 do t['k' .. i] = i end while true do for k in pairs(t) do break end end",
		"local t = {} for i = 1, 9000 do t['k' .. i] = i end while true do next(t) end",
		"local s = 'x' while true do s = s .. s end",
		"local s = ('x'):rep(60000) local t = {} for i = 1, 1e9 do t[i] = s .. i end",
		"local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
		"local t = {} for i = 1, 1e9 do t[i] = {} end",
		"while true do pcall(string.rep, 'x', 60000) end",
		"while true do string.format('%99d', 1) end",
	};
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const uint64_t before = clock_mono_ms();
		gives_fault(sources[i], SANDBOX_FAULT_BUDGET, "budget");
		/* Sanitizers slow everything: only an order of magnitude is checked, far below "for ever". */
		assert_true(clock_mono_ms() - before < 20u * small_budget.wall_ms);
	}
}

/* F39: single calls with absurd sizes are refused at once, with a sentence. */
static void test_f39_absurd_sizes_are_refused(void **state)
{
	(void)state;
	gives_fault("return ('x'):rep(1e9)", SANDBOX_FAULT_LOAD, "too long");
	gives_fault("return ('x'):rep(math.maxinteger, 'yy')", SANDBOX_FAULT_LOAD, "too long");
	gives_fault("return string.format('%99999d', 1)", SANDBOX_FAULT_LOAD, "invalid conversion");
	gives_fault("local s = ('x'):rep(60000) s = s .. s return s:upper()", SANDBOX_FAULT_LOAD, "too long");
	gives_fault("local s = ('x'):rep(60000) return table.concat({s, s})", SANDBOX_FAULT_LOAD, "too long");
	gives_fault("return table.unpack({}, 1, 1e7)", SANDBOX_FAULT_LOAD, "too many");
	gives_fault("return table.unpack({}, math.mininteger, math.maxinteger)", SANDBOX_FAULT_LOAD, "too many");
	gives_fault("return table.concat({}, '', 1, math.maxinteger)", SANDBOX_FAULT_LOAD, "nil");
	gives_fault("local t = {5, 3, 1, 4, 2, 9, 8} table.sort(t, function() return true end)", SANDBOX_FAULT_LOAD,
	            "");
}

/* F42: deep recursion in Lua and through protected calls ends in an error, not in the C stack. */
static void test_f42_recursion_is_bounded(void **state)
{
	(void)state;
	gives_fault("local function f(n) return 1 + f(n + 1) end return f(1)", SANDBOX_FAULT_BUDGET, "budget");
	gives_value("local depth = 0 local function f() depth = depth + 1 local ok = pcall(f) return ok end f() "
	            "return tostring(depth > 100 and depth < 300)",
	            "true");
	char source[8192];
	memset(source, '(', sizeof(source) - 1);
	source[sizeof(source) - 1] = '\0';
	gives_fault(source, SANDBOX_FAULT_LOAD, "");
}

/* F42: memory is capped at the budget and given back after the run. */
static void test_f42_memory_is_capped(void **state)
{
	(void)state;
	struct sandbox *sb = sandbox_new(&small_budget, NULL);
	struct sandbox_fault fault;
	assert_int_equal(sandbox_load(sb, "t.lua", STR_LIT("local t = {} for i = 1, 1e9 do t[i] = {} end"), &fault),
	                 ERR_INVALID);
	assert_int_equal(fault.kind, SANDBOX_FAULT_BUDGET);
	assert_true(sandbox_peak_bytes(sb) <= small_budget.memory);
	sandbox_free(sb);
}

/* Faults say where: file and line of a failing line, a syntax error, a failing call. */
static void test_faults_name_their_line(void **state)
{
	(void)state;
	struct sandbox_fault fault;
	assert_int_equal(run("local a = 1\nlocal b = a.x.y\n", NULL, 0, &fault), ERR_INVALID);
	assert_int_equal(fault.line, 2);
	assert_non_null(strstr(fault.message, "t.lua:2:"));
	assert_int_equal(run("local a = 1\n\nif a then", NULL, 0, &fault), ERR_INVALID);
	assert_int_equal(fault.line, 3);
	assert_int_equal(run("\nerror({})", NULL, 0, &fault), ERR_INVALID);
	assert_int_equal(fault.line, 2);
	assert_non_null(strstr(fault.message, "table"));

	struct sandbox *sb = sandbox_new(&small_budget, NULL);
	assert_int_equal(sandbox_load(sb, "p.lua", STR_LIT("return function()\n error('no') end"), &fault), 0);
	assert_int_equal(sandbox_call(sb, 0, 1, &fault), ERR_INVALID);
	assert_int_equal(fault.kind, SANDBOX_FAULT_RUNTIME);
	assert_int_equal(fault.line, 2);
	assert_int_equal(lua_gettop(sandbox_lua(sb)), 0);
	sandbox_free(sb);
}

static bool find_module(void *arg, struct str name, struct str *source)
{
	(void)arg;
	if (str_is(name, "lib.racks"))
		*source = STR_LIT("return { of = function(m) return 'r' .. m end }");
	else if (str_is(name, "lib.loop"))
		*source = STR_LIT("return require 'lib.loop'");
	else if (str_is(name, "lib.broken"))
		*source = STR_LIT("return +");
	else
		return false;
	return true;
}

/* Modules are found by name, loaded once, and their faults are the chunk's. */
static void test_require_loads_modules(void **state)
{
	(void)state;
	const struct sandbox_modules modules = { .find = find_module };
	static const struct {
		const char *source;
		const char *want; /* NULL: must fail with `part` */
		const char *part;
	} cases[] = {
		{ "local r = require 'lib.racks' return r.of('1') .. tostring(require 'lib.racks' == r)", "r1true",
		  NULL },
		{ "return require 'lib.loop'", NULL, "requires itself" },
		{ "return require 'lib.broken'", NULL, "lib.broken:1:" },
		{ "return require 'lib.none'", NULL, "no module" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sandbox *sb = sandbox_new(&small_budget, &modules);
		struct sandbox_fault fault;
		const int rc = sandbox_load(sb, "t.lua", str_of(cases[i].source), &fault);
		if (cases[i].want) {
			assert_int_equal(rc, 0);
			assert_string_equal(lua_tostring(sandbox_lua(sb), -1), cases[i].want);
		} else {
			assert_int_equal(rc, ERR_INVALID);
			assert_non_null(strstr(fault.message, cases[i].part));
		}
		sandbox_free(sb);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allowed_functions_work),
		cmocka_unit_test(test_pairs_has_an_order),
		cmocka_unit_test(test_f41_nothing_else_is_reachable),
		cmocka_unit_test(test_f41_each_run_starts_clean),
		cmocka_unit_test(test_f39_f40_budget_ends_every_run),
		cmocka_unit_test(test_f39_absurd_sizes_are_refused),
		cmocka_unit_test(test_f42_recursion_is_bounded),
		cmocka_unit_test(test_f42_memory_is_capped),
		cmocka_unit_test(test_faults_name_their_line),
		cmocka_unit_test(test_require_loads_modules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
