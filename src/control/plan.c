#include "control/plan.h"

#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/place.h"
#include "fsm/assignments.h"
#include "fsm/topics.h"
#include "model/records.h"

/* ---- what a policy returns ---- */

/* Field `name` of the table on top; "" when it is not there. */
static LUA_JUMPS struct str field_text(lua_State *L, struct arena *a, const char *name, size_t max)
{
	const int type = lua_getfield(L, -1, name);
	if (type != LUA_TSTRING && type != LUA_TNIL)
		luaL_error(L, "plan: '%s' of an intent is a %s, a text is expected", name, luaL_typename(L, -1));
	const struct str s = lua_copy_text(L, -1, a, max);
	lua_pop(L, 1);
	return s;
}

static LUA_JUMPS void check_fields(lua_State *L)
{
	static const char *const names[] = { "topic", "partition", "to", "from", "leader", "abort", "reason", NULL };
	for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
		size_t i = 0;
		while (names[i] && strcmp(names[i], key) != 0)
			i++;
		if (!names[i])
			luaL_error(L, "plan: an intent has no field '%s'", key);
	}
}

static LUA_JUMPS void read_intent(lua_State *L, struct arena *a, struct plan_intent *out)
{
	if (!lua_istable(L, -1))
		luaL_error(L, "plan: an intent is a %s, a table is expected", luaL_typename(L, -1));
	check_fields(L);
	*out = (struct plan_intent){ .topic = field_text(L, a, "topic", SIZE_MAX) };
	int is_int;
	lua_getfield(L, -1, "partition");
	out->partition = lua_tointegerx(L, -1, &is_int);
	if (out->topic.len == 0 || !is_int || lua_type(L, -1) != LUA_TNUMBER)
		luaL_error(L, "plan: an intent names a topic and a partition");
	lua_getfield(L, -2, "abort");
	out->abort = lua_toboolean(L, -1);
	lua_pop(L, 2);
	out->to = field_text(L, a, "to", SIZE_MAX);
	out->from = field_text(L, a, "from", SIZE_MAX);
	out->leader = field_text(L, a, "leader", SIZE_MAX);
	out->reason = field_text(L, a, "reason", PLAN_REASON_MAX);
	if ((out->to.len > 0) + (out->leader.len > 0) + out->abort != 1)
		luaL_error(L, "plan: an intent has one of 'to', 'leader' and 'abort'");
}

void plan_read(lua_State *L, int list, struct arena *a, struct plan_answer *out)
{
	list = lua_absindex(L, list);
	if (!lua_istable(L, list))
		luaL_error(L, "plan: returns a %s, a list of intents is expected", luaL_typename(L, list));
	const lua_Integer n = (lua_Integer)lua_rawlen(L, list);
	if (n > PLAN_INTENTS_MAX)
		luaL_error(L, "plan: %d intents, at most %d are taken", (int)n, PLAN_INTENTS_MAX);
	*out = (struct plan_answer){ .items = arena_zalloc(a, ((size_t)n + 1) * sizeof(*out->items)) };
	for (lua_Integer i = 1; i <= n; i++) {
		lua_rawgeti(L, list, i);
		read_intent(L, a, &out->items[out->count++]);
		lua_pop(L, 1);
	}
	if (n == 0) {
		lua_pushnil(L);
		if (lua_next(L, list))
			luaL_error(L, "plan: returns a table that is no list");
	}
	out->reason = lua_copy_text(L, list + 1, a, PLAN_REASON_MAX);
}

/* ---- what the core makes of it ---- */

static bool is_planned(const struct plan_answer *plan, const struct plan_intent *in)
{
	for (const struct plan_intent *p = plan->items; p < in; p++) {
		if (!p->refused && p->partition == in->partition && str_eq(p->topic, in->topic))
			return true;
	}
	return false;
}

/* The partition as it stands. A word: it is none that can be moved. */
static int load(const struct cluster_view *v, struct arena *a, struct plan_intent *in, const char **why)
{
	struct fsm_topic t;
	struct fsm_owner o;
	struct topic record;
	int rc = fsm_get_topic(v->txn, in->topic, &t);
	*why = rc == ERR_NOTFOUND ? "topic_not_found" : NULL;
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	if (in->partition < 0 || in->partition >= (int64_t)t.partition_count) {
		*why = "partition_not_found";
		return 0;
	}
	rc = record_read_json(&topic_type, t.record, a, &record, NULL, NULL);
	if (rc)
		return rc;
	fsm_topic_owner(&t, (uint32_t)in->partition, &o);
	in->topic_id = record.id.p ? record.id : STR_LIT("");
	in->owner = arena_str(a, o.owner);
	in->target = arena_str(a, o.target);
	in->move_id = o.move_id;
	if (t.replicated)
		*why = "replicated";
	else if (in->from.len || in->leader.len)
		*why = "not_replicated";
	else if (o.owner.len == 0)
		*why = "partition_not_found";
	return 0;
}

static const char *judge_move(const struct cluster_view *v, const struct plan_intent *in, int64_t *budget)
{
	if (in->target.len > 0)
		return "move_in_flight";
	if (str_eq(in->to, in->owner))
		return "already_owner";
	const struct place_refusal *why = place_refusal(v->members, in->to);
	if (why)
		return why->code;
	if (*budget <= 0)
		return "move_budget_full";
	(*budget)--;
	return NULL;
}

static int64_t setting_of(const struct cluster_view *v, const char *name)
{
	for (size_t i = 0; i < v->setting_count; i++) {
		if (strcmp(v->settings[i].name, name) == 0)
			return v->settings[i].value;
	}
	return 0;
}

int plan_judge(const struct cluster_view *v, struct arena *a, struct plan_answer *plan)
{
	uint64_t under_way;
	int rc = fsm_count_moves(v->txn, &under_way);
	if (rc)
		return rc;
	int64_t budget = setting_of(v, "max_moves") - (int64_t)under_way;
	for (size_t i = 0; i < plan->count; i++) {
		struct plan_intent *in = &plan->items[i];
		rc = load(v, a, in, &in->refused);
		if (rc)
			return rc;
		if (in->refused)
			continue;
		if (is_planned(plan, in)) {
			in->refused = "move_in_flight";
		} else if (in->abort) {
			in->refused = in->target.len ? NULL : "no_move";
			budget += in->refused == NULL;
		} else {
			in->refused = judge_move(v, in, &budget);
		}
	}
	return 0;
}

/* ---- asking ---- */

struct plan_run {
	struct cluster_view *view; /* first: policy_view_begin */
	struct arena *arena;
	struct plan_answer *out;
};

static LUA_JUMPS int run_plan(lua_State *L)
{
	const struct plan_run *run = lua_touserdata(L, 1);
	policy_push_function(L, "plan");
	cluster_view_push(L, run->view);
	lua_call(L, 1, 2);
	plan_read(L, lua_gettop(L) - 1, run->arena, run->out);
	return 0;
}

int plan_ask(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view, struct arena *a,
             struct plan_answer *out, struct sandbox_fault *fault)
{
	struct plan_run run = { .view = view, .arena = a, .out = out };
	const struct policy_call call = {
		.kind = POLICY_REBALANCE,
		.budget = budget,
		.run = run_plan,
		.before = policy_view_begin,
		.after = policy_view_end,
		.arg = &run,
	};
	view->placement = policy_placement(ps);
	const int rc = policy_run(ps, &call, fault);
	if (rc != 0) {
		*out = (struct plan_answer){ 0 };
		return rc;
	}
	return plan_judge(view, a, out);
}

/* `allowed` again, in a run that is the placement policy's own. */
static LUA_JUMPS int run_allowed(lua_State *L)
{
	const struct plan_run *run = lua_touserdata(L, 1);
	if (!policy_push_optional(L, "allowed"))
		return 0;
	const int fn = lua_gettop(L);
	for (size_t i = 0; i < run->out->count; i++) {
		struct plan_intent *in = &run->out->items[i];
		if (in->refused || in->abort)
			continue;
		lua_pushvalue(L, fn);
		cluster_view_push(L, run->view);
		cluster_view_push_topic(L, run->view, in->topic);
		lua_pushinteger(L, in->partition);
		cluster_view_push_member(L, run->view, in->to);
		lua_call(L, 4, 1);
		if (!lua_toboolean(L, -1))
			in->refused = "not_allowed";
		lua_settop(L, fn);
	}
	return 0;
}

void plan_ask_allowed(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view,
                      struct arena *a, struct plan_answer *plan)
{
	struct plan_run run = { .view = view, .arena = a, .out = plan };
	const struct policy_call call = {
		.kind = POLICY_PLACEMENT,
		.budget = budget,
		.run = run_allowed,
		.before = policy_view_begin,
		.after = policy_view_end,
		.arg = &run,
	};
	struct sandbox_fault fault;
	bool any = false;
	for (size_t i = 0; i < plan->count; i++)
		any = any || (!plan->items[i].refused && !plan->items[i].abort);
	if (!any || policy_run(ps, &call, &fault) == 0)
		return;
	for (size_t i = 0; i < plan->count; i++) {
		if (!plan->items[i].refused && !plan->items[i].abort)
			plan->items[i].refused = "policy_failed";
	}
}
