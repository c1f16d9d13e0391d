/* The object that policies call `cluster`: how it is reached, what it says of itself, where its methods are. */
#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/view_internal.h"

void view_charge(const struct cluster_view *v, lua_State *L, uint64_t work)
{
	if (v->sb)
		sandbox_charge(L, work);
}

struct cluster_view *cluster_view_check(lua_State *L)
{
	struct cluster_view **box = luaL_testudata(L, 1, VIEW_TYPE);
	if (!box)
		luaL_error(L, "methods of the cluster are called with a colon: cluster:method()");
	view_charge(*box, L, VIEW_LOOKUP_WORK);
	arena_reset((*box)->scratch);
	return *box;
}

struct str view_check_name(lua_State *L, int arg)
{
	struct str s;
	s.p = luaL_checklstring(L, arg, &s.len);
	return s;
}

void view_check_read(lua_State *L, int rc)
{
	if (rc != 0 && rc != ERR_NOTFOUND)
		luaL_error(L, "the state could not be read: %s", err_text(rc));
}

static LUA_JUMPS int view_setting(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct str name = view_check_name(L, 2);
	for (size_t i = 0; i < v->setting_count; i++) {
		if (str_is(name, v->settings[i].name)) {
			lua_pushinteger(L, v->settings[i].value);
			return 1;
		}
	}
	return luaL_error(L, "no setting '%s'", name.p);
}

/* random(n): 1..n, the same sequence at the same index. */
static LUA_JUMPS int view_random(lua_State *L)
{
	struct cluster_view *v = cluster_view_check(L);
	const lua_Integer n = luaL_checkinteger(L, 2);
	luaL_argcheck(L, n >= 1, 2, "must be at least 1");
	lua_pushinteger(L, (lua_Integer)rand_below(&v->rand, (uint64_t)n) + 1);
	return 1;
}

static LUA_JUMPS int view_log(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct str text = view_check_name(L, 2);
	view_charge(v, L, 1 + text.len / 8);
	if (!v->log || v->log->len >= VIEW_LOG_MAX)
		return 0;
	const size_t room = VIEW_LOG_MAX - v->log->len;
	buf_put(v->log, text.p, text.len < room ? text.len : room);
	buf_putc(v->log, '\n');
	return 0;
}

static LUA_JUMPS int view_index(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct str name = view_check_name(L, 2);
	lua_pushvalue(L, 2);
	if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
		return 1;
	if (str_is(name, "index"))
		lua_pushinteger(L, (lua_Integer)v->index);
	else if (str_is(name, "now"))
		lua_pushnumber(L, v->now_s);
	else if (str_is(name, "leader"))
		lua_push_str(L, v->leader);
	else if (str_is(name, "term"))
		lua_pushinteger(L, (lua_Integer)v->term);
	else if (str_is(name, "leader_for_s"))
		lua_pushnumber(L, v->leader_for_s);
	else
		return luaL_error(L, "the cluster has no '%s'", name.p);
	return 1;
}

static LUA_JUMPS int view_newindex(lua_State *L)
{
	return luaL_error(L, "the cluster is read-only");
}

static LUA_JUMPS int view_tostring(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	lua_pushfstring(L, "cluster at index %I", (LUAI_UACINT)v->index);
	return 1;
}

void cluster_view_push_metatable(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "allowed", cluster_view_allowed },
		{ "setting", view_setting },
		{ "random", view_random },
		{ "log", view_log },
		{ NULL, NULL },
	};
	if (!luaL_newmetatable(L, VIEW_TYPE))
		return;
	luaL_newlib(L, methods);
	luaL_setfuncs(L, view_member_methods, 0);
	luaL_setfuncs(L, view_topic_methods, 0);
	lua_pushcclosure(L, view_index, 1);
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, view_newindex);
	lua_setfield(L, -2, "__newindex");
	lua_pushcfunction(L, view_tostring);
	lua_setfield(L, -2, "__tostring");
	lua_pushliteral(L, "cluster");
	lua_setfield(L, -2, "__metatable");
}

void cluster_view_push(lua_State *L, struct cluster_view *v)
{
	rand_seed(&v->rand, v->index);
	struct cluster_view **box = lua_newuserdatauv(L, sizeof(*box), 1);
	*box = v;
	cluster_view_push_metatable(L);
	lua_setmetatable(L, -2);
}

struct cluster_view *cluster_view_at(lua_State *L, int index)
{
	struct cluster_view **box = luaL_testudata(L, index, VIEW_TYPE);
	return box ? *box : NULL;
}
