/* What a policy can reach. Three kinds: functions of Lua's own libraries whose cost is bounded by one step, taken over
 * as they are; functions that touch many bytes or slots, which charge the budget first; and replacements where Lua's
 * own would make a run depend on more than its input (addresses in tostring, the order of pairs). There are no Lua
 * patterns: their matching time has no bound in the length of the text. */
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/sandbox.h"

#define UNPACK_MAX 4000 /* values one unpack may put on the stack */

static const char array_key;
static const char null_key;

/* ---- arguments ---- */

static LUA_JUMPS struct str check_string(lua_State *L, int arg)
{
	struct str s;
	s.p = luaL_checklstring(L, arg, &s.len);
	if (s.len > SANDBOX_STRING_MAX)
		luaL_error(L, "string of %d bytes is too long, allowed are %d", (int)s.len, (int)SANDBOX_STRING_MAX);
	sandbox_charge_bytes(L, s.len);
	return s;
}

static LUA_JUMPS void check_result_length(lua_State *L, size_t len)
{
	if (len > SANDBOX_STRING_MAX)
		luaL_error(L, "result of %d bytes is too long, allowed are %d", (int)len, (int)SANDBOX_STRING_MAX);
	sandbox_charge_bytes(L, len);
}

/* Lua's own function, kept as upvalue 1, after the string in argument 1 was charged. */
static LUA_JUMPS int charged_string_call(lua_State *L)
{
	check_string(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

/* ---- basics ---- */

/* Without addresses: the same run on two nodes says the same. */
static LUA_JUMPS void push_text(lua_State *L, int arg)
{
	switch (lua_type(L, arg)) {
	case LUA_TNIL: lua_pushliteral(L, "nil"); break;
	case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, arg) ? "true" : "false"); break;
	case LUA_TNUMBER:
	case LUA_TSTRING:
		lua_pushvalue(L, arg);
		lua_tostring(L, -1);
		break;
	default: lua_pushstring(L, sandbox_is_null(L, arg) ? "null" : luaL_typename(L, arg)); break;
	}
}

static LUA_JUMPS int lib_tonumber(lua_State *L)
{
	if (lua_type(L, 1) == LUA_TSTRING)
		return charged_string_call(L);
	luaL_checkany(L, 1);
	lua_settop(L, 1);
	if (!lua_isnumber(L, 1))
		lua_pushnil(L);
	return 1;
}

static LUA_JUMPS int lib_tostring(lua_State *L)
{
	luaL_checkany(L, 1);
	push_text(L, 1);
	return 1;
}

/* An order of keys that does not depend on hashes: numbers, then strings, then booleans. */
static int compare_keys(lua_State *L, int a, int b)
{
	static const int rank[] = {
		[LUA_TNUMBER] = 1,
		[LUA_TSTRING] = 2,
		[LUA_TBOOLEAN] = 3,
	};
	const int ta = lua_type(L, a);
	const int tb = lua_type(L, b);
	if (ta != tb)
		return rank[ta] - rank[tb];
	if (ta == LUA_TBOOLEAN)
		return lua_toboolean(L, a) - lua_toboolean(L, b);
	return lua_compare(L, a, b, LUA_OPLT) ? -1 : lua_compare(L, b, a, LUA_OPLT);
}

static LUA_JUMPS int key_less(lua_State *L)
{
	lua_pushboolean(L, compare_keys(L, 1, 2) < 0);
	return 1;
}

static LUA_JUMPS void check_key(lua_State *L, int index)
{
	const int t = lua_type(L, index);
	if (t != LUA_TNUMBER && t != LUA_TSTRING && t != LUA_TBOOLEAN)
		luaL_error(L, "pairs over a key of type %s, which has no order", lua_typename(L, t));
}

/* Sorting n values: what Lua's sort may cost, text comparisons included. */
static LUA_JUMPS void charge_sort(lua_State *L, lua_Integer n, size_t text_bytes)
{
	uint64_t rounds = 1;
	for (lua_Integer k = n; k > 1; k /= 2)
		rounds++;
	sandbox_charge(L, rounds * ((uint64_t)n * 2 + text_bytes / 8));
}

/* Upvalues: table, sorted keys, position. */
static LUA_JUMPS int pairs_step(lua_State *L)
{
	lua_Integer i = lua_tointeger(L, lua_upvalueindex(3));
	for (;;) {
		i++;
		if (lua_rawgeti(L, lua_upvalueindex(2), i) == LUA_TNIL)
			return 1;
		lua_pushvalue(L, -1);
		if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
			break; /* a key removed meanwhile is passed over */
		lua_pop(L, 2);
	}
	lua_pushinteger(L, i);
	lua_replace(L, lua_upvalueindex(3));
	return 2;
}

static LUA_JUMPS int lib_pairs(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	lua_newtable(L);
	lua_Integer n = 0;
	size_t text_bytes = 0;
	for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
		check_key(L, -2);
		if (lua_type(L, -2) == LUA_TSTRING)
			text_bytes += lua_rawlen(L, -2);
		lua_pushvalue(L, -2);
		lua_rawseti(L, 2, ++n);
		if (n % 256 == 0)
			sandbox_charge(L, 256);
	}
	charge_sort(L, n, text_bytes);
	lua_getfield(L, LUA_REGISTRYINDEX, "veena.sort");
	lua_pushvalue(L, 2);
	lua_pushcfunction(L, key_less);
	lua_call(L, 2, 0);
	lua_pushvalue(L, 1);
	lua_pushvalue(L, 2);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, pairs_step, 3);
	return 1;
}

/* next(t, k): the smallest key above k. Linear, and charged as such: it is there for `next(t) == nil`. */
static LUA_JUMPS int lib_next(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 2);
	const bool from_start = lua_isnil(L, 2);
	if (!from_start)
		check_key(L, 2);
	lua_pushnil(L); /* 3: best key so far */
	uint64_t seen = 0;
	for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
		check_key(L, -2);
		if (++seen % 256 == 0)
			sandbox_charge(L, 256);
		const bool above = from_start || compare_keys(L, lua_gettop(L) - 1, 2) > 0;
		if (above && (lua_isnil(L, 3) || compare_keys(L, lua_gettop(L) - 1, 3) < 0)) {
			lua_pushvalue(L, -2);
			lua_replace(L, 3);
		}
	}
	if (lua_isnil(L, 3))
		return 1;
	lua_pushvalue(L, 3);
	lua_pushvalue(L, 3);
	lua_rawget(L, 1);
	return 2;
}

/* ---- string ---- */

static LUA_JUMPS int lib_string_rep(lua_State *L)
{
	const struct str s = check_string(L, 1);
	const lua_Integer n = luaL_checkinteger(L, 2);
	const struct str sep = lua_isnoneornil(L, 3) ? STR_LIT("") : check_string(L, 3);
	if (n <= 0 || s.len + sep.len == 0) {
		lua_pushliteral(L, "");
		return 1;
	}
	if ((uint64_t)n > SANDBOX_STRING_MAX)
		return luaL_error(L, "result is too long, allowed are %d bytes", (int)SANDBOX_STRING_MAX);
	const size_t len = (size_t)n * s.len + (size_t)(n - 1) * sep.len;
	check_result_length(L, len);
	luaL_Buffer b;
	luaL_buffinitsize(L, &b, len);
	for (lua_Integer i = 0; i < n; i++) {
		if (i)
			luaL_addlstring(&b, sep.p, sep.len);
		luaL_addlstring(&b, s.p, s.len);
	}
	luaL_pushresult(&b);
	return 1;
}

/* find(s, text [, init]): plain only. Returns first and last position. */
static LUA_JUMPS int lib_string_find(lua_State *L)
{
	const struct str s = check_string(L, 1);
	const struct str text = check_string(L, 2);
	lua_Integer init = luaL_optinteger(L, 3, 1);
	if (init < 0)
		init = init + (lua_Integer)s.len + 1 > 0 ? init + (lua_Integer)s.len + 1 : 1;
	else if (init == 0)
		init = 1;
	if (init > (lua_Integer)s.len + 1) {
		lua_pushnil(L);
		return 1;
	}
	const char *from = s.p + init - 1;
	const char *at = memmem(from, s.len - (size_t)(init - 1), text.p, text.len);
	if (!at) {
		lua_pushnil(L);
		return 1;
	}
	lua_pushinteger(L, at - s.p + 1);
	lua_pushinteger(L, at - s.p + (lua_Integer)text.len);
	return 2;
}

/* match(s, glob): does the whole of s fit? `*` is any run of bytes, `?` any one byte. Going back only to the latest
 * star is enough; the steps are charged as they are taken, since there may be |s| x |glob| of them. */
static LUA_JUMPS int lib_string_match(lua_State *L)
{
	const struct str s = check_string(L, 1);
	const struct str glob = check_string(L, 2);
	size_t i = 0;
	size_t g = 0;
	size_t star = SIZE_MAX;
	size_t star_i = 0;
	uint64_t steps = 0;
	bool fits = true;
	while (i < s.len) {
		if (++steps % 4096 == 0)
			sandbox_charge(L, 4096);
		if (g < glob.len && glob.p[g] == '*') {
			star = g++;
			star_i = i;
		} else if (g < glob.len && (glob.p[g] == '?' || glob.p[g] == s.p[i])) {
			g++;
			i++;
		} else if (star != SIZE_MAX) {
			g = star + 1;
			i = ++star_i;
		} else {
			fits = false;
			break;
		}
	}
	while (fits && g < glob.len && glob.p[g] == '*')
		g++;
	lua_pushboolean(L, fits && g == glob.len);
	return 1;
}

/* One conversion of a format, without '%': flags, width and precision of at most two digits, as Lua allows. */
static size_t conversion_length(const char *p, const char *end)
{
	const char *q = p;
	while (q < end && strchr("-+ #0", *q))
		q++;
	for (int k = 0; k < 2 && q < end && *q >= '0' && *q <= '9'; k++)
		q++;
	if (q < end && *q == '.') {
		q++;
		for (int k = 0; k < 2 && q < end && *q >= '0' && *q <= '9'; k++)
			q++;
	}
	return q < end && strchr("diuoxXcsqaAeEfFgG", *q) ? (size_t)(q - p) + 1 : 0;
}

/* Values that Lua's format would show with an address become their text first; then Lua's own does the work. */
static LUA_JUMPS int lib_string_format(lua_State *L)
{
	const struct str f = check_string(L, 1);
	const char *end = f.p + f.len;
	const int top = lua_gettop(L);
	int arg = 1;
	size_t len = 0;
	for (const char *p = f.p; p < end; p++) {
		if (*p != '%')
			continue;
		if (++p < end && *p == '%')
			continue;
		const size_t n = conversion_length(p, end);
		if (n == 0)
			return luaL_error(L, "invalid conversion in format: allowed are %%d %%i %%u %%o %%x %%X %%c "
			                     "%%s %%q %%a %%e %%f %%g");
		p += n - 1;
		if (++arg > top)
			return luaL_error(L, "bad argument #%d to 'format' (no value)", arg);
		if (*p == 's') {
			push_text(L, arg);
			lua_replace(L, arg);
			len += lua_rawlen(L, arg);
		} else if (*p == 'q' && lua_type(L, arg) == LUA_TSTRING) {
			len += 4 * lua_rawlen(L, arg);
		}
		len += 128; /* the longest number of width 99 */
		if (len > 4u * SANDBOX_STRING_MAX)
			return luaL_error(L, "result is too long, allowed are %d bytes", (int)SANDBOX_STRING_MAX);
	}
	sandbox_charge_bytes(L, len);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, top, 1);
	check_result_length(L, lua_rawlen(L, -1));
	return 1;
}

/* ---- table ---- */

static LUA_JUMPS lua_Integer check_table(lua_State *L, int arg)
{
	luaL_checktype(L, arg, LUA_TTABLE);
	return (lua_Integer)lua_rawlen(L, arg);
}

static LUA_JUMPS int lib_table_concat(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	const struct str sep = lua_isnoneornil(L, 2) ? STR_LIT("") : check_string(L, 2);
	const lua_Integer from = luaL_optinteger(L, 3, 1);
	const lua_Integer to = luaL_optinteger(L, 4, n);
	size_t total = 0;
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	for (lua_Integer i = from; i <= to; i++) {
		if (lua_rawgeti(L, 1, i) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER)
			return luaL_error(L, "value at index %I in table for 'concat' is a %s", i,
			                  luaL_typename(L, -1));
		total += lua_type(L, -1) == LUA_TSTRING ? lua_rawlen(L, -1) : 32;
		total += i < to ? sep.len : 0;
		check_result_length(L, total);
		luaL_addvalue(&b);
		if (i < to)
			luaL_addlstring(&b, sep.p, sep.len);
		if (i == LUA_MAXINTEGER)
			break;
	}
	luaL_pushresult(&b);
	return 1;
}

static LUA_JUMPS int lib_table_insert(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	if (lua_gettop(L) == 2) {
		lua_rawseti(L, 1, n + 1);
		return 0;
	}
	if (lua_gettop(L) != 3)
		return luaL_error(L, "wrong number of arguments to 'insert'");
	const lua_Integer pos = luaL_checkinteger(L, 2);
	luaL_argcheck(L, pos >= 1 && pos <= n + 1, 2, "position out of bounds");
	sandbox_charge(L, (uint64_t)(n + 1 - pos));
	for (lua_Integer i = n; i >= pos; i--) {
		lua_rawgeti(L, 1, i);
		lua_rawseti(L, 1, i + 1);
	}
	lua_rawseti(L, 1, pos);
	return 0;
}

static LUA_JUMPS int lib_table_remove(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	const lua_Integer pos = luaL_optinteger(L, 2, n);
	if (!lua_isnoneornil(L, 2))
		luaL_argcheck(L, (pos >= 1 && pos <= n + 1) || (n == 0 && pos == 0), 2, "position out of bounds");
	lua_rawgeti(L, 1, pos);
	if (pos < n)
		sandbox_charge(L, (uint64_t)(n - pos));
	for (lua_Integer i = pos; i < n; i++) {
		lua_rawgeti(L, 1, i + 1);
		lua_rawseti(L, 1, i);
	}
	if (pos >= 1 && pos <= n) {
		lua_pushnil(L);
		lua_rawseti(L, 1, n);
	}
	return 1;
}

static LUA_JUMPS int lib_table_sort(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	lua_settop(L, 2);
	/* Text is counted element by element: one long string may stand in the table many times. */
	size_t text_bytes = 0;
	for (lua_Integer i = 1; i <= n; i++) {
		if (lua_rawgeti(L, 1, i) == LUA_TSTRING)
			text_bytes += lua_rawlen(L, -1);
		lua_pop(L, 1);
		if (i % 256 == 0)
			sandbox_charge(L, 256);
	}
	charge_sort(L, n, text_bytes);
	lua_getfield(L, LUA_REGISTRYINDEX, "veena.sort");
	lua_insert(L, 1);
	lua_call(L, 2, 0);
	return 0;
}

static LUA_JUMPS int lib_table_unpack(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	const lua_Integer from = luaL_optinteger(L, 2, 1);
	const lua_Integer to = luaL_optinteger(L, 3, n);
	if (from > to)
		return 0;
	const lua_Unsigned count = (lua_Unsigned)to - (lua_Unsigned)from;
	if (count >= UNPACK_MAX || !lua_checkstack(L, (int)count + 1))
		return luaL_error(L, "too many values to unpack, allowed are %d", UNPACK_MAX);
	sandbox_charge(L, count);
	for (lua_Unsigned k = 0; k <= count; k++)
		lua_rawgeti(L, 1, (lua_Integer)((lua_Unsigned)from + k));
	return (int)count + 1;
}

/* ---- veena: null and arrays ---- */

void sandbox_push_null(lua_State *L)
{
	/* A light pointer compares equal to itself in every state and cannot be written to. */
	lua_pushlightuserdata(L, (void *)(uintptr_t)&null_key);
}

bool sandbox_is_null(lua_State *L, int index)
{
	return lua_islightuserdata(L, index) && lua_touserdata(L, index) == &null_key;
}

void sandbox_mark_array(lua_State *L, int index)
{
	const int t = lua_absindex(L, index);
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
	}
	lua_setmetatable(L, t);
}

bool sandbox_is_array(lua_State *L, int index)
{
	if (!lua_istable(L, index))
		return false;
	if (lua_getmetatable(L, index)) {
		lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
		const bool marked = lua_rawequal(L, -1, -2);
		lua_pop(L, 2);
		if (marked)
			return true;
	}
	return lua_rawlen(L, index) > 0;
}

static LUA_JUMPS int lib_is_array(lua_State *L)
{
	lua_pushboolean(L, sandbox_is_array(L, 1));
	return 1;
}

/* ---- the environment ---- */

const char *const sandbox_globals[] = {
	"assert",       "error",
	"ipairs",       "next",
	"pairs",        "pcall",
	"require",      "select",
	"tonumber",     "tostring",
	"type",         "math.abs",
	"math.ceil",    "math.exp",
	"math.floor",   "math.fmod",
	"math.huge",    "math.log",
	"math.max",     "math.maxinteger",
	"math.min",     "math.mininteger",
	"math.modf",    "math.pi",
	"math.sqrt",    "math.tointeger",
	"math.type",    "math.ult",
	"string.byte",  "string.char",
	"string.find",  "string.format",
	"string.len",   "string.lower",
	"string.match", "string.rep",
	"string.sub",   "string.upper",
	"table.concat", "table.insert",
	"table.remove", "table.sort",
	"table.unpack", "veena.is_array",
	"veena.null",   NULL,
};

/* Reading or writing a name that is not there is an error with a hint instead of a silent nil. */
static LUA_JUMPS int no_such_global(lua_State *L)
{
	const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
	return luaL_error(L, "no global '%s' here: GET /v1/policies lists what a policy can use", name);
}

static LUA_JUMPS int no_new_global(lua_State *L)
{
	const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
	return luaL_error(L, "a policy has no global variables: write 'local %s'", name);
}

/* Copies the named functions of the library table at `from` into the table on top. */
static LUA_JUMPS void take_over(lua_State *L, int from, const char *const *names)
{
	const int lib = lua_absindex(L, from);
	for (; *names; names++) {
		lua_getfield(L, lib, *names);
		lua_setfield(L, -2, *names);
	}
}

/* Sets field `name` of the table on top to `fn` with Lua's own function of that name as upvalue. */
static LUA_JUMPS void wrap(lua_State *L, int from, const char *name, lua_CFunction fn)
{
	lua_getfield(L, lua_absindex(L, from), name);
	lua_pushcclosure(L, fn, 1);
	lua_setfield(L, -2, name);
}

static LUA_JUMPS void push_string_library(lua_State *L)
{
	luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
	lua_newtable(L);
	static const char *const same[] = { "byte", "char", "len", "sub", NULL };
	static const luaL_Reg ours[] = {
		{ "find", lib_string_find },
		{ "match", lib_string_match },
		{ "rep", lib_string_rep },
		{ NULL, NULL },
	};
	take_over(L, -2, same);
	wrap(L, -2, "lower", charged_string_call);
	wrap(L, -2, "upper", charged_string_call);
	wrap(L, -2, "format", lib_string_format);
	luaL_setfuncs(L, ours, 0);
	lua_remove(L, -2);

	/* Methods of string values reach the same functions and no others; Lua's arithmetic on texts goes with them. */
	lua_pushliteral(L, "");
	lua_newtable(L);
	lua_pushvalue(L, -3);
	lua_setfield(L, -2, "__index");
	lua_setmetatable(L, -2);
	lua_pop(L, 1);
}

static LUA_JUMPS void push_table_library(lua_State *L)
{
	luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 0);
	lua_getfield(L, -1, "sort");
	lua_setfield(L, LUA_REGISTRYINDEX, "veena.sort");
	lua_pop(L, 1);
	static const luaL_Reg ours[] = {
		{ "concat", lib_table_concat }, { "insert", lib_table_insert }, { "remove", lib_table_remove },
		{ "sort", lib_table_sort },     { "unpack", lib_table_unpack }, { NULL, NULL },
	};
	luaL_newlib(L, ours);
}

static LUA_JUMPS void push_math_library(lua_State *L)
{
	luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
	static const char *const same[] = { "abs", "ceil", "exp",        "floor", "fmod",       "huge",
		                            "log", "max",  "maxinteger", "min",   "mininteger", "modf",
		                            "pi",  "sqrt", "tointeger",  "type",  "ult",        NULL };
	lua_newtable(L);
	take_over(L, -2, same);
	lua_remove(L, -2);
}

static LUA_JUMPS void push_veena_library(lua_State *L)
{
	lua_newtable(L);
	lua_pushcfunction(L, lib_is_array);
	lua_setfield(L, -2, "is_array");
	sandbox_push_null(L);
	lua_setfield(L, -2, "null");
}

void sandbox_push_environment(lua_State *L)
{
	luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
	lua_newtable(L);
	static const char *const same[] = { "assert", "error", "ipairs", "select", "type", NULL };
	static const luaL_Reg ours[] = {
		{ "next", lib_next },
		{ "pairs", lib_pairs },
		{ "tostring", lib_tostring },
		{ NULL, NULL },
	};
	take_over(L, -2, same);
	wrap(L, -2, "tonumber", lib_tonumber);
	luaL_setfuncs(L, ours, 0);
	lua_remove(L, -2);
	push_string_library(L);
	lua_setfield(L, -2, "string");
	push_table_library(L);
	lua_setfield(L, -2, "table");
	push_math_library(L);
	lua_setfield(L, -2, "math");
	push_veena_library(L);
	lua_setfield(L, -2, "veena");
}

void sandbox_seal_environment(lua_State *L)
{
	lua_newtable(L);
	lua_pushcfunction(L, no_such_global);
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, no_new_global);
	lua_setfield(L, -2, "__newindex");
	lua_setmetatable(L, -2);
}
