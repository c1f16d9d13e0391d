/* cluster:allowed: the placement policy's word on whether a member may hold a partition, asked by other policies.
 *
 * The placement policy is loaded into the asking policy's run, once, and pays from its budget. A fault of it there is
 * not the asker's: the answer is then yes, and the core, which asks again in a run of its own, sees the fault. */
#include <lauxlib.h>

#include "control/view.h"

static const char allowed_key; /* registry: the function, or false */

/* Argument: the view. Returns the policy's `allowed`, or false. */
static LUA_JUMPS int load_allowed(lua_State *L)
{
	const struct cluster_view *v = lua_touserdata(L, 1);
	sandbox_push_chunk(L, v->placement.chunk, v->placement.text);
	lua_pushliteral(L, "allowed");
	if (!lua_istable(L, -2) || lua_rawget(L, -2) != LUA_TFUNCTION)
		lua_pushboolean(L, 0);
	return 1;
}

static LUA_JUMPS bool push_allowed(lua_State *L, struct cluster_view *v)
{
	if (!v->placement.text.p)
		return false;
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &allowed_key) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_pushcfunction(L, load_allowed);
		lua_pushlightuserdata(L, v);
		if (!sandbox_pcall(L, 1, 1))
			lua_pushboolean(L, 0);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &allowed_key);
	}
	if (lua_isfunction(L, -1))
		return true;
	lua_pop(L, 1);
	return false;
}

int cluster_view_allowed(lua_State *L)
{
	struct cluster_view *v = cluster_view_check(L);
	struct str topic, member;
	topic.p = luaL_checklstring(L, 2, &topic.len);
	luaL_checkinteger(L, 3);
	member.p = luaL_checklstring(L, 4, &member.len);
	lua_settop(L, 4);
	if (!push_allowed(L, v)) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushvalue(L, 1);
	cluster_view_push_topic(L, v, topic);
	lua_pushvalue(L, 3);
	cluster_view_push_member(L, v, member);
	if (!sandbox_pcall(L, 4, 2)) {
		lua_pushboolean(L, 1);
		return 1;
	}
	lua_pushboolean(L, lua_toboolean(L, -2));
	lua_replace(L, -3);
	return 2;
}
