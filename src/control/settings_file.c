#include "control/settings_file.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "control/sandbox.h"

#define LIST_MAX 256 /* texts of one setting, and settings of one file */

static const struct sandbox_budget budget = {
	.instructions = 10000000,
	.memory = (size_t)16 << 20,
	.wall_ms = 2000,
};

struct reading {
	const char *path;
	struct str source;
	struct arena *arena; /* the caller's: what it gives survives a jump */
	struct settings_item *items;
	size_t count;
};

/* The text of a string, integer or boolean at the top; raises on anything else. */
LUA_JUMPS static const char *read_scalar(lua_State *L, struct arena *a, const char *name)
{
	size_t len;
	switch (lua_type(L, -1)) {
	case LUA_TBOOLEAN: return lua_toboolean(L, -1) ? "on" : "off";
	case LUA_TNUMBER:
		if (!lua_isinteger(L, -1))
			luaL_error(L, "%s: numbers are whole numbers", name);
		return arena_printf(a, LUA_INTEGER_FMT, lua_tointeger(L, -1));
	case LUA_TSTRING: {
		const char *s = lua_tolstring(L, -1, &len);
		if (memchr(s, 0, len))
			luaL_error(L, "%s: a text holds no NUL byte", name);
		return arena_strndup(a, s, len);
	}
	default: luaL_error(L, "%s: a %s is no value of a setting", name, luaL_typename(L, -1));
	}
	return NULL;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The table at the top: a list, or names and values. */
LUA_JUMPS static void read_table(lua_State *L, struct arena *a, struct settings_item *item)
{
	const char **values = arena_zalloc(a, LIST_MAX * sizeof(*values));
	const lua_Integer listed = (lua_Integer)lua_rawlen(L, -1);
	size_t count = 0;
	luaL_checkstack(L, 8, item->name);
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		if (count == LIST_MAX)
			luaL_error(L, "%s: more than %d values", item->name, LIST_MAX);
		const char *text = read_scalar(L, a, item->name);
		if (listed > 0) {
			if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > listed)
				luaL_error(L, "%s: either a list or names with values, not both", item->name);
			values[lua_tointeger(L, -2) - 1] = text;
		} else {
			if (lua_type(L, -2) != LUA_TSTRING)
				luaL_error(L, "%s: its names are texts", item->name);
			values[count] = arena_printf(a, "%s=%s", lua_tostring(L, -2), text);
		}
		count++;
		lua_pop(L, 1);
	}
	if (count == 0)
		luaL_error(L, "%s: the list is empty; leave it out instead", item->name);
	if (listed > 0 && count != (size_t)listed)
		luaL_error(L, "%s: the list has holes", item->name);
	if (listed == 0)
		qsort(values, count, sizeof(*values), compare_texts);
	item->values = values;
	item->count = count;
}

static int compare_items(const void *a, const void *b)
{
	return strcmp(((const struct settings_item *)a)->name, ((const struct settings_item *)b)->name);
}

LUA_JUMPS static int read_settings(lua_State *L)
{
	struct reading *r = lua_touserdata(L, 1);
	sandbox_push_chunk(L, r->path, r->source);
	if (!lua_istable(L, -1))
		luaL_error(L, "the file must return a table of settings, not a %s", luaL_typename(L, -1));
	r->items = arena_zalloc(r->arena, LIST_MAX * sizeof(*r->items));
	lua_pushnil(L);
	while (lua_next(L, -2)) {
		if (lua_type(L, -2) != LUA_TSTRING)
			luaL_error(L, "the names of settings are texts");
		if (r->count == LIST_MAX)
			luaL_error(L, "more than %d settings", LIST_MAX);
		struct settings_item *item = &r->items[r->count++];
		item->name = arena_strdup(r->arena, lua_tostring(L, -2));
		if (lua_istable(L, -1)) {
			read_table(L, r->arena, item);
		} else {
			const char **one = arena_alloc(r->arena, sizeof(*one));
			*one = read_scalar(L, r->arena, item->name);
			item->values = one;
			item->count = 1;
		}
		lua_pop(L, 1);
	}
	return 0;
}

int settings_file_parse(const char *path, struct str source, struct arena *a, struct settings_item **items,
                        size_t *count, struct err *e)
{
	struct reading r = { .path = path, .source = source, .arena = a };
	struct sandbox_fault fault;
	struct sandbox *sb = sandbox_new(&budget, NULL);
	int rc = sandbox_host_call(sb, read_settings, &r, 0, &fault);
	sandbox_free(sb);
	if (rc) {
		/* Lua's own messages begin with the chunk's name and the line. */
		const bool named = strncmp(fault.message, path, strlen(path)) == 0;
		return err_set(e, rc, "%s%s%s", named ? "" : path, named ? "" : ": ", fault.message);
	}
	if (r.count > 0)
		qsort(r.items, r.count, sizeof(*r.items), compare_items);
	*items = r.items;
	*count = r.count;
	return 0;
}
