#include "control/lua_value.h"

#include <lauxlib.h>
#include <math.h>

#define COPY_DEPTH_MAX 96 /* more than JSON may nest, so that specs can show what is refused there */

void lua_push_str(lua_State *L, struct str s)
{
	lua_pushlstring(L, s.len ? s.p : "", s.len);
}

void lua_set_str(lua_State *L, const char *key, struct str s)
{
	lua_push_str(L, s);
	lua_setfield(L, -2, key);
}

void lua_set_integer(lua_State *L, const char *key, int64_t v)
{
	lua_pushinteger(L, v);
	lua_setfield(L, -2, key);
}

void lua_set_bool(lua_State *L, const char *key, bool v)
{
	lua_pushboolean(L, v);
	lua_setfield(L, -2, key);
}

static LUA_JUMPS void push_text(lua_State *L, const struct json_reader *r)
{
	if (!r->escaped) {
		lua_push_str(L, r->token);
		return;
	}
	luaL_Buffer b;
	char *out = luaL_buffinitsize(L, &b, r->token.len);
	luaL_pushresultsize(&b, json_unescape(out, r->token));
}

static LUA_JUMPS void push_number(lua_State *L, struct str token)
{
	int64_t i;
	if (json_number_i64(token, &i)) {
		lua_pushinteger(L, i);
		return;
	}
	lua_push_str(L, token); /* Lua's reader of numbers wants a NUL behind */
	const size_t used = lua_stringtonumber(L, lua_tostring(L, -1));
	if (used == 0)
		luaL_error(L, "number %s does not fit", lua_tostring(L, -1));
	lua_remove(L, -2);
}

/* Puts the value on top into the container below it: an object's has the key between them. */
static LUA_JUMPS void store_value(lua_State *L, bool in_object)
{
	if (in_object)
		lua_rawset(L, -3);
	else
		lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

void lua_push_json(lua_State *L, struct str text)
{
	struct json_reader r;
	json_reader_init(&r, text, 0);
	uint64_t is_object = 0; /* bit d: the container at depth d; JSON_DEPTH_DEFAULT is 64 */
	unsigned depth = 0;
	for (;;) {
		luaL_checkstack(L, 4, "JSON nested too deep");
		bool complete = true; /* a value stands on top and wants to be stored */
		switch (json_next(&r)) {
		case JSON_OBJECT:
			lua_newtable(L);
			is_object |= (uint64_t)1 << depth++;
			complete = false;
			break;
		case JSON_ARRAY:
			lua_newtable(L);
			sandbox_mark_array(L, -1);
			is_object &= ~((uint64_t)1 << depth++);
			complete = false;
			break;
		case JSON_OBJECT_END:
		case JSON_ARRAY_END: depth--; break;
		case JSON_KEY:
			push_text(L, &r);
			complete = false;
			break;
		case JSON_STRING: push_text(L, &r); break;
		case JSON_NUMBER: push_number(L, r.token); break;
		case JSON_TRUE: lua_pushboolean(L, 1); break;
		case JSON_FALSE: lua_pushboolean(L, 0); break;
		case JSON_NULL: sandbox_push_null(L); break;
		case JSON_END: return;
		case JSON_ERROR: luaL_error(L, "not JSON at byte %d: %s", (int)r.error_pos, r.error); return;
		}
		if (complete && depth > 0)
			store_value(L, is_object >> (depth - 1) & 1);
	}
}

static LUA_JUMPS void copy_value(lua_State *from, int index, lua_State *to, int depth)
{
	index = lua_absindex(from, index);
	luaL_checkstack(to, 4, "value nested too deep");
	switch (lua_type(from, index)) {
	case LUA_TNIL: lua_pushnil(to); return;
	case LUA_TBOOLEAN: lua_pushboolean(to, lua_toboolean(from, index)); return;
	case LUA_TNUMBER:
		if (lua_isinteger(from, index))
			lua_pushinteger(to, lua_tointeger(from, index));
		else
			lua_pushnumber(to, lua_tonumber(from, index));
		return;
	case LUA_TSTRING: {
		size_t len;
		const char *s = lua_tolstring(from, index, &len);
		lua_pushlstring(to, s, len);
		return;
	}
	case LUA_TTABLE: break;
	default:
		if (!sandbox_is_null(from, index))
			luaL_error(to, "a %s cannot be handed over", luaL_typename(from, index));
		sandbox_push_null(to);
		return;
	}
	if (depth == COPY_DEPTH_MAX || !lua_checkstack(from, 4))
		luaL_error(to, "value nested too deep, allowed are %d levels", COPY_DEPTH_MAX);
	lua_newtable(to);
	for (lua_pushnil(from); lua_next(from, index); lua_pop(from, 1)) {
		copy_value(from, -2, to, depth + 1);
		copy_value(from, -1, to, depth + 1);
		lua_rawset(to, -3);
	}
	if (sandbox_is_array(from, index))
		sandbox_mark_array(to, -1);
}

void lua_copy_value(lua_State *from, int index, lua_State *to)
{
	copy_value(from, index, to, 0);
}

static LUA_JUMPS void write_value(lua_State *L, int index, struct json_writer *w, int depth);

static LUA_JUMPS void write_table(lua_State *L, int index, struct json_writer *w, int depth)
{
	if (sandbox_is_array(L, index)) {
		const lua_Integer n = (lua_Integer)lua_rawlen(L, index);
		json_begin_array(w);
		for (lua_Integer i = 1; i <= n; i++) {
			lua_rawgeti(L, index, i);
			write_value(L, -1, w, depth + 1);
			lua_pop(L, 1);
		}
		json_end_array(w);
		return;
	}
	json_begin_object(w);
	for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
		if (lua_type(L, -2) != LUA_TSTRING)
			luaL_error(L, "a record has a key of type %s, names are expected", luaL_typename(L, -2));
		struct str key;
		key.p = lua_tolstring(L, -2, &key.len);
		json_key_str(w, key);
		write_value(L, -1, w, depth + 1);
	}
	json_end_object(w);
}

static LUA_JUMPS void write_value(lua_State *L, int index, struct json_writer *w, int depth)
{
	index = lua_absindex(L, index);
	if (depth == COPY_DEPTH_MAX)
		luaL_error(L, "value nested too deep, allowed are %d levels", COPY_DEPTH_MAX);
	luaL_checkstack(L, 4, "value nested too deep");
	switch (lua_type(L, index)) {
	case LUA_TBOOLEAN: json_put_bool(w, lua_toboolean(L, index)); return;
	case LUA_TNUMBER:
		if (lua_isinteger(L, index))
			json_put_i64(w, lua_tointeger(L, index));
		else if (isfinite(lua_tonumber(L, index)))
			json_put_double(w, lua_tonumber(L, index));
		else
			luaL_error(L, "JSON has no infinite numbers");
		return;
	case LUA_TSTRING: {
		struct str s;
		s.p = lua_tolstring(L, index, &s.len);
		json_put_str(w, s);
		return;
	}
	case LUA_TTABLE: write_table(L, index, w, depth); return;
	default:
		if (!sandbox_is_null(L, index))
			luaL_error(L, "JSON has no %s", luaL_typename(L, index));
		json_put_null(w);
		return;
	}
}

void lua_write_json(lua_State *L, int index, struct json_writer *w)
{
	write_value(L, index, w, 0);
}

struct str lua_copy_text(lua_State *L, int index, struct arena *a, size_t max)
{
	struct str s = { "", 0 };
	if (lua_type(L, index) == LUA_TSTRING)
		s.p = lua_tolstring(L, index, &s.len);
	if (s.len > max)
		s.len = max;
	return arena_str(a, s);
}
