#include <lauxlib.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "control/lua_value.h"

/* ---- veena.json ---- */

/* decode(text) -> value, or nil and what is wrong. */
static int decode_raising(lua_State *L)
{
	struct str text;
	text.p = luaL_checklstring(L, 1, &text.len);
	lua_push_json(L, text);
	return 1;
}

static int json_decode(lua_State *L)
{
	luaL_checkstring(L, 1);
	lua_settop(L, 1);
	lua_pushcfunction(L, decode_raising);
	lua_insert(L, 1);
	if (lua_pcall(L, 1, 1, 0) == LUA_OK)
		return 1;
	lua_pushnil(L);
	lua_insert(L, -2);
	return 2;
}

/* Upvalue-free helper run in protected mode, so that the buffer is freed whatever is raised. */
static int encode_raising(lua_State *L)
{
	struct json_writer *w = lua_touserdata(L, 2);
	lua_write_json(L, 1, w);
	return 0;
}

/* encode(value) -> text; raises on what JSON cannot say. */
static int json_encode(lua_State *L)
{
	luaL_checkany(L, 1);
	lua_settop(L, 1);
	struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	lua_pushcfunction(L, encode_raising);
	lua_insert(L, 1);
	lua_pushlightuserdata(L, &w);
	const int status = lua_pcall(L, 2, 0, 0);
	if (status == LUA_OK)
		lua_pushlstring(L, out.len ? (const char *)out.data : "", out.len);
	buf_fini(&out);
	return status == LUA_OK ? 1 : lua_error(L);
}

/* array(t) marks t as a list, so that an empty one is written as []. */
static int json_array(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	sandbox_mark_array(L, 1);
	return 1;
}

int cli_open_json(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "decode", json_decode },
		{ "encode", json_encode },
		{ "array", json_array },
		{ NULL, NULL },
	};
	luaL_newlib(L, functions);
	sandbox_push_null(L);
	lua_setfield(L, -2, "null");
	return 1;
}
