/* One word about one member: is it dead, may it go. */
#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/plan.h"

struct verdict_run {
	struct cluster_view *view; /* first: policy_view_begin */
	enum policy_kind kind;
	struct arena *arena;
	struct verdict *items;
	size_t count;
};

bool verdict_read(lua_State *L, int index, enum policy_kind kind)
{
	const int type = lua_type(L, index);
	if (kind == POLICY_DRAIN) {
		if (type != LUA_TBOOLEAN && type != LUA_TNIL)
			luaL_error(L, "finished: returns a %s, true or false is expected", luaL_typename(L, index));
		return lua_toboolean(L, index);
	}
	if (type == LUA_TSTRING && strcmp(lua_tostring(L, index), "dead") == 0)
		return true;
	if (type != LUA_TNIL && !(type == LUA_TBOOLEAN && !lua_toboolean(L, index)))
		luaL_error(L, "judge: returns a %s, \"dead\" or nil is expected", luaL_typename(L, index));
	return false;
}

static LUA_JUMPS int run_verdicts(lua_State *L)
{
	const struct verdict_run *run = lua_touserdata(L, 1);
	policy_push_function(L, run->kind == POLICY_DRAIN ? "finished" : "judge");
	const int fn = lua_gettop(L);
	cluster_view_push(L, run->view);
	for (size_t i = 0; i < run->count; i++) {
		struct verdict *v = &run->items[i];
		lua_pushvalue(L, fn);
		lua_pushvalue(L, fn + 1);
		cluster_view_push_member(L, run->view, v->member);
		lua_call(L, 2, 2);
		v->yes = verdict_read(L, -2, run->kind);
		v->reason = lua_copy_text(L, -1, run->arena, PLAN_REASON_MAX);
		lua_settop(L, fn + 1);
	}
	return 0;
}

int verdict_ask(struct policy_set *ps, enum policy_kind kind, const struct sandbox_budget *budget,
                struct cluster_view *view, struct arena *a, struct verdict *v, size_t count,
                struct sandbox_fault *fault)
{
	struct verdict_run run = { .kind = kind, .view = view, .arena = a, .items = v, .count = count };
	const struct policy_call call = {
		.kind = kind,
		.budget = budget,
		.run = run_verdicts,
		.before = policy_view_begin,
		.after = policy_view_end,
		.arg = &run,
	};
	return policy_run(ps, &call, fault);
}

static bool is_called_dead(const struct verdict *all, size_t count, struct str id)
{
	for (size_t i = 0; i < count; i++) {
		if (all[i].yes && str_eq(all[i].member, id))
			return true;
	}
	return false;
}

static const struct view_server *voter_of(const struct cluster_view *v, struct str id)
{
	for (size_t i = 0; i < v->server_count; i++) {
		if (v->servers[i].voter && str_eq(v->servers[i].id, id))
			return &v->servers[i];
	}
	return NULL;
}

size_t verdict_keep_quorum(const struct cluster_view *v, struct verdict *all, size_t count)
{
	size_t voters = 0, left = 0, taken_back = 0;
	for (size_t i = 0; i < v->server_count; i++) {
		const struct view_server *s = &v->servers[i];
		if (!s->voter)
			continue;
		voters++;
		left += s->leader || (s->alive && !is_called_dead(all, count, s->id));
	}
	for (size_t i = 0; i < count; i++) {
		const struct view_server *s = all[i].yes ? voter_of(v, all[i].member) : NULL;
		if (!s || (!s->leader && left >= voters / 2 + 1))
			continue;
		all[i].yes = false;
		taken_back++;
	}
	return taken_back;
}
