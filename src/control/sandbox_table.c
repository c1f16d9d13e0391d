/* table for scripts: each function charges for the slots it touches. */
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "control/sandbox_internal.h"

#define UNPACK_MAX 4000 /* values one unpack may put on the stack */

static LUA_JUMPS lua_Integer check_table(lua_State *L, int arg)
{
	luaL_checktype(L, arg, LUA_TTABLE);
	return (lua_Integer)lua_rawlen(L, arg);
}

static LUA_JUMPS int lib_table_concat(lua_State *L)
{
	const lua_Integer n = check_table(L, 1);
	const struct str sep = lua_isnoneornil(L, 2) ? STR_LIT("") : sandbox_check_string(L, 2);
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
		sandbox_check_result(L, total);
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
	sandbox_charge_sort(L, n, text_bytes);
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

void sandbox_push_tables(lua_State *L)
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
