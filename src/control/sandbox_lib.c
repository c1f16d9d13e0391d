/* What a policy can reach. Three kinds: functions of Lua's own libraries whose cost is bounded by one step, taken over
 * as they are; functions that touch many bytes or slots, which charge the budget first; and replacements where Lua's
 * own would make a run depend on more than its input (addresses in tostring, the order of pairs). There are no Lua
 * patterns: their matching time has no bound in the length of the text. */
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/sandbox_internal.h"

static const char array_key;
static const char null_key;

/* ---- arguments ---- */

struct str sandbox_check_string(lua_State *L, int arg)
{
	struct str s;
	s.p = luaL_checklstring(L, arg, &s.len);
	if (s.len > SANDBOX_STRING_MAX)
		luaL_error(L, "string of %d bytes is too long, allowed are %d", (int)s.len, (int)SANDBOX_STRING_MAX);
	sandbox_charge_bytes(L, s.len);
	return s;
}

void sandbox_check_result(lua_State *L, size_t len)
{
	if (len > SANDBOX_STRING_MAX)
		luaL_error(L, "result of %d bytes is too long, allowed are %d", (int)len, (int)SANDBOX_STRING_MAX);
	sandbox_charge_bytes(L, len);
}

/* Lua's own function, kept as upvalue 1, after the string in argument 1 was charged. */
int sandbox_charged_call(lua_State *L)
{
	sandbox_check_string(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

/* ---- basics ---- */

/* Without addresses: the same run on two nodes says the same. */
void sandbox_push_text(lua_State *L, int arg)
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
		return sandbox_charged_call(L);
	luaL_checkany(L, 1);
	lua_settop(L, 1);
	if (!lua_isnumber(L, 1))
		lua_pushnil(L);
	return 1;
}

static LUA_JUMPS int lib_tostring(lua_State *L)
{
	luaL_checkany(L, 1);
	sandbox_push_text(L, 1);
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
void sandbox_charge_sort(lua_State *L, lua_Integer n, size_t text_bytes)
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
	sandbox_charge_sort(L, n, text_bytes);
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
void sandbox_take_over(lua_State *L, int from, const char *const *names)
{
	const int lib = lua_absindex(L, from);
	for (; *names; names++) {
		lua_getfield(L, lib, *names);
		lua_setfield(L, -2, *names);
	}
}

/* Sets field `name` of the table on top to `fn` with Lua's own function of that name as upvalue. */
void sandbox_wrap(lua_State *L, int from, const char *name, lua_CFunction fn)
{
	lua_getfield(L, lua_absindex(L, from), name);
	lua_pushcclosure(L, fn, 1);
	lua_setfield(L, -2, name);
}

static LUA_JUMPS void push_math_library(lua_State *L)
{
	luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
	static const char *const same[] = { "abs", "ceil", "exp",        "floor", "fmod",       "huge",
		                            "log", "max",  "maxinteger", "min",   "mininteger", "modf",
		                            "pi",  "sqrt", "tointeger",  "type",  "ult",        NULL };
	lua_newtable(L);
	sandbox_take_over(L, -2, same);
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
	sandbox_take_over(L, -2, same);
	sandbox_wrap(L, -2, "tonumber", lib_tonumber);
	luaL_setfuncs(L, ours, 0);
	lua_remove(L, -2);
	sandbox_push_strings(L);
	lua_setfield(L, -2, "string");
	sandbox_push_tables(L);
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
