/* control/lua_value.h - values between JSON, C and Lua states: null is veena.null, lists are marked, integers stay
 * integers.
 *
 * Thread: that of the lua_State.
 */
#ifndef CONTROL_LUA_VALUE_H
#define CONTROL_LUA_VALUE_H

#include <lua.h>

#include "base/arena.h"
#include "base/buf.h"
#include "control/sandbox.h"
#include "model/json.h"

/* Pushes a JSON document that was checked before (a stored record). Raises on one that was not. */
LUA_JUMPS void lua_push_json(lua_State *L, struct str text);
LUA_JUMPS void lua_push_str(lua_State *L, struct str s);
/* Writes the value at `index` as JSON: what lua_push_json gives, back again. Raises on what JSON cannot say. The
 * writer's buffer is the caller's and outlives the jump. */
LUA_JUMPS void lua_write_json(lua_State *L, int index, struct json_writer *w);
/* Sets field `key` of the table on top. */
LUA_JUMPS void lua_set_str(lua_State *L, const char *key, struct str s);
LUA_JUMPS void lua_set_integer(lua_State *L, const char *key, int64_t v);
LUA_JUMPS void lua_set_bool(lua_State *L, const char *key, bool v);

/* Copies the value at `index` of `from` onto the top of `to`, another state: plain data only (nil, booleans, numbers,
 * texts, null, tables of those, at most 96 deep); anything else raises in `to`. Marks of lists are kept. */
LUA_JUMPS void lua_copy_value(lua_State *from, int index, lua_State *to);

/* The text at `index`, copied into the arena and cut to `max` bytes; "" when no text is there. */
struct str lua_copy_text(lua_State *L, int index, struct arena *a, size_t max);

#endif /* CONTROL_LUA_VALUE_H */
