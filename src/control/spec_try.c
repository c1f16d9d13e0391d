/* veena.try: one call of a policy and what the core makes of its answer. */
#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/place.h"
#include "control/plan.h"
#include "control/policy.h"
#include "control/spec_internal.h"
#include "fsm/topics.h"

enum { HAS_PLACE = 1, HAS_PLAN = 2, HAS_JUDGE = 4, HAS_FINISHED = 8, HAS_ELECT = 16, HAS_COMPATIBLE = 32 };
static const char *const functions[] = { "place", "plan", "judge", "finished", "elect", "compatible", NULL };

/* The stack of spec_try; what a branch needs beyond these it pushes above. */
enum { TRY_POLICY = 1, TRY_CLUSTER, TRY_ARGS, TRY_INTENTS, TRY_REFUSED, TRY_REASON, TRY_TOP = TRY_REASON };

static LUA_JUMPS void push_new_list(lua_State *L)
{
	lua_newtable(L);
	sandbox_mark_array(L, -1);
}

/* Puts the intent on top among the intents, or with a code among the refused. */
static LUA_JUMPS void sort_in(lua_State *L, const char *code)
{
	if (code) {
		lua_createtable(L, 0, 2);
		lua_insert(L, -2);
		lua_setfield(L, -2, "intent");
		lua_set_str(L, "code", str_of(code));
	}
	const int list = code ? TRY_REFUSED : TRY_INTENTS;
	lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Of the table on top. */
static LUA_JUMPS void set_reason(lua_State *L, int from)
{
	if (lua_type(L, from) != LUA_TSTRING)
		return;
	lua_pushvalue(L, from);
	lua_setfield(L, -2, "reason");
}

/* ---- place ---- */

static LUA_JUMPS void push_unplaced(lua_State *L, const struct cluster_view *v, struct str topic)
{
	struct fsm_topic t;
	push_new_list(L);
	if (fsm_get_topic(v->txn, topic, &t) != 0)
		luaL_error(L, "the cluster has no topic '%s': give partitions", topic.p);
	lua_Integer n = 0;
	for (uint32_t p = 0; p < t.partition_count; p++) {
		struct fsm_owner o;
		fsm_topic_owner(&t, p, &o);
		if (o.owner.len || o.leaderless)
			continue;
		lua_pushinteger(L, p);
		lua_rawseti(L, -2, ++n);
	}
}

/* Sorts the owner on top into the intents or the refused. */
static LUA_JUMPS void judge_owner(lua_State *L, const struct cluster_view *v, struct str topic, lua_Integer partition)
{
	struct str id;
	id.p = luaL_checklstring(L, -1, &id.len);
	const struct place_refusal *why = place_refusal(v->members, id);
	lua_createtable(L, 0, 4);
	lua_set_str(L, "topic", topic);
	lua_set_integer(L, "partition", partition);
	lua_set_str(L, "to", id);
	if (lua_type(L, TRY_REASON) == LUA_TTABLE) {
		lua_rawgeti(L, TRY_REASON, partition);
		lua_insert(L, -2);
		set_reason(L, -2);
		lua_remove(L, -2);
	} else {
		set_reason(L, TRY_REASON);
	}
	sort_in(L, why ? why->code : NULL);
}

static LUA_JUMPS void try_place(lua_State *L, const struct cluster_view *v)
{
	const int topic_at = TRY_TOP + 1, list = TRY_TOP + 2, owners = TRY_TOP + 3;
	struct str topic;
	lua_getfield(L, TRY_ARGS, "topic");
	spec_name_to_topic(L, TRY_CLUSTER, topic_at);
	lua_getfield(L, topic_at, "name");
	topic.p = luaL_checklstring(L, -1, &topic.len); /* kept alive by the record */
	lua_pop(L, 1);
	if (lua_getfield(L, TRY_ARGS, "partitions") == LUA_TNIL) {
		lua_pop(L, 1);
		push_unplaced(L, v, topic);
	}
	lua_getfield(L, TRY_POLICY, "place");
	lua_pushvalue(L, TRY_CLUSTER);
	lua_pushvalue(L, topic_at);
	lua_pushvalue(L, list);
	lua_call(L, 3, 2);
	lua_replace(L, TRY_REASON);
	if (!lua_istable(L, owners)) {
		lua_pushfstring(L, "place: returns a %s, a table of partition = member id is expected",
		                luaL_typename(L, owners));
		spec_raise_answer(L);
	}
	const lua_Integer asked = (lua_Integer)lua_rawlen(L, list);
	for (lua_Integer i = 1; i <= asked; i++) {
		lua_rawgeti(L, list, i);
		const lua_Integer partition = luaL_checkinteger(L, -1);
		if (lua_rawgeti(L, owners, partition) != LUA_TNIL)
			judge_owner(L, v, topic, partition);
		lua_settop(L, owners);
	}
}

/* ---- plan ---- */

static LUA_JUMPS void push_intent(lua_State *L, const struct plan_intent *in)
{
	lua_createtable(L, 0, 5);
	lua_set_str(L, "topic", in->topic);
	lua_set_integer(L, "partition", in->partition);
	if (in->abort)
		lua_set_bool(L, "abort", true);
	if (in->to.len)
		lua_set_str(L, "to", in->to);
	if (in->from.len)
		lua_set_str(L, "from", in->from);
	if (in->leader.len)
		lua_set_str(L, "leader", in->leader);
	if (in->reason.len)
		lua_set_str(L, "reason", in->reason);
}

/* What the placement policy's `allowed` says of it, as the core asks; without one: yes. */
static LUA_JUMPS bool is_allowed(lua_State *L, int placement, const struct cluster_view *v,
                                 const struct plan_intent *in)
{
	static const char *const names[] = { "allowed", NULL };
	if (in->abort || lua_isnil(L, placement) ||
	    !spec_policy_has(L, luaL_checkudata(L, placement, SPEC_POLICY_TYPE), names))
		return true;
	lua_getfield(L, placement, "allowed");
	lua_pushvalue(L, TRY_CLUSTER);
	cluster_view_push_topic(L, v, in->topic);
	lua_pushinteger(L, in->partition);
	cluster_view_push_member(L, v, in->to);
	lua_call(L, 4, 1);
	const bool yes = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return yes;
}

struct reading {
	struct arena *arena;
	struct plan_answer *out;
};

/* Arguments: what the policy returned, the reason, a struct reading. */
static LUA_JUMPS int read_plan(lua_State *L)
{
	const struct reading *r = lua_touserdata(L, 3);
	plan_read(L, 1, r->arena, r->out);
	return 0;
}

static LUA_JUMPS void try_plan(lua_State *L, struct spec_cluster *c)
{
	struct cluster_view *v = &c->view;
	struct plan_answer plan;
	const int placement = TRY_TOP + 1;
	v->placement = (struct view_placement){ NULL, { NULL, 0 } };
	if (lua_getfield(L, TRY_ARGS, "placement") != LUA_TNIL) {
		const struct spec_policy *p = luaL_checkudata(L, placement, SPEC_POLICY_TYPE);
		v->placement = (struct view_placement){ p->chunk, { (const char *)p->text.data, p->text.len } };
	}
	lua_getfield(L, TRY_POLICY, "plan");
	lua_pushvalue(L, TRY_CLUSTER);
	lua_call(L, 1, 2);
	lua_pushvalue(L, -1);
	lua_replace(L, TRY_REASON);
	struct reading reading = { &c->arena, &plan };
	lua_pushcfunction(L, read_plan);
	lua_pushvalue(L, placement + 1);
	lua_pushvalue(L, placement + 2);
	lua_pushlightuserdata(L, &reading);
	if (lua_pcall(L, 3, 0, 0) != LUA_OK)
		spec_raise_answer(L);
	if (plan_judge(v, &c->arena, &plan) != 0)
		luaL_error(L, "the state could not be read");
	for (size_t i = 0; i < plan.count; i++) {
		struct plan_intent *in = &plan.items[i];
		if (!in->refused && !is_allowed(L, placement, v, in))
			in->refused = "not_allowed";
		push_intent(L, in);
		sort_in(L, in->refused);
	}
}

/* ---- judge, finished, elect, compatible ---- */

/* The member or assignment of the arguments; for the former an id is enough. */
static LUA_JUMPS void push_subject(lua_State *L, const struct cluster_view *v, const char *name)
{
	if (lua_getfield(L, TRY_ARGS, name) == LUA_TSTRING) {
		struct str id;
		id.p = lua_tolstring(L, -1, &id.len);
		cluster_view_push_member(L, v, id);
		lua_remove(L, -2);
	}
	if (!lua_istable(L, -1))
		luaL_error(L, "try: give %s", name);
}

static LUA_JUMPS struct str id_on(lua_State *L, int at)
{
	struct str id;
	lua_getfield(L, at, "id");
	id.p = luaL_checklstring(L, -1, &id.len);
	lua_pop(L, 1); /* kept alive by the record */
	return id;
}

static LUA_JUMPS const char *judge_dead(lua_State *L, const struct cluster_view *v, struct str id)
{
	struct verdict all = { .member = id, .yes = true };
	lua_getfield(L, TRY_TOP + 1, "silent_s");
	const double silent_s = lua_tonumber(L, -1);
	lua_pop(L, 1);
	for (size_t i = 0; i < v->setting_count; i++) {
		if (strcmp(v->settings[i].name, "dead_after_s") == 0 && silent_s < (double)v->settings[i].value)
			return "not_watched";
	}
	return verdict_keep_quorum(v, &all, 1) ? "no_healthy_majority" : NULL;
}

static LUA_JUMPS const char *judge_finished(const struct cluster_view *v, struct str id)
{
	struct fsm_member_extra x;
	if (fsm_get_member_extra(v->txn, id, &x) != 0 || x.counts.owned || x.counts.coming || x.counts.follows)
		return "member_holds";
	size_t left = 0;
	bool votes = false;
	for (size_t i = 0; i < v->server_count; i++) {
		votes = votes || (v->servers[i].voter && str_eq(v->servers[i].id, id));
		left += v->servers[i].voter && !str_eq(v->servers[i].id, id);
	}
	for (size_t i = 0; votes && i < v->setting_count; i++) {
		if (strcmp(v->settings[i].name, "min_voters") == 0 && (int64_t)left < v->settings[i].value)
			return "below_min_voters";
	}
	return NULL;
}

/* Arguments: the word, and whether it is judge's. */
static LUA_JUMPS int read_word(lua_State *L)
{
	lua_pushboolean(L, verdict_read(L, 1, lua_toboolean(L, 2) ? POLICY_LIVENESS : POLICY_DRAIN));
	return 1;
}

static LUA_JUMPS void try_member(lua_State *L, const struct cluster_view *v, bool judge)
{
	push_subject(L, v, "member");
	const struct str id = id_on(L, TRY_TOP + 1);
	lua_pushvalue(L, TRY_TOP + 1); /* stays: the id is its */
	lua_getfield(L, TRY_POLICY, judge ? "judge" : "finished");
	lua_insert(L, -2);
	lua_pushvalue(L, TRY_CLUSTER);
	lua_insert(L, -2);
	lua_call(L, 2, 2);
	lua_pushvalue(L, -1);
	lua_replace(L, TRY_REASON);
	lua_pushcfunction(L, read_word);
	lua_pushvalue(L, -3);
	lua_pushboolean(L, judge);
	if (lua_pcall(L, 2, 1, 0) != LUA_OK)
		spec_raise_answer(L);
	if (!lua_toboolean(L, -1))
		return;
	lua_createtable(L, 0, 3);
	lua_set_str(L, "member", id);
	lua_set_bool(L, judge ? "dead" : "remove", true);
	set_reason(L, TRY_REASON);
	sort_in(L, judge ? judge_dead(L, v, id) : judge_finished(v, id));
}

static LUA_JUMPS const char *judge_leader(lua_State *L, const struct cluster_view *v, struct str id)
{
	bool in_sync = false, is_replica = false;
	lua_getfield(L, TRY_TOP + 1, "replicas");
	for (lua_Integer i = 1; lua_istable(L, -1) && lua_rawgeti(L, -1, i) == LUA_TTABLE; i++) {
		if (str_eq(id_on(L, lua_gettop(L)), id)) {
			is_replica = true;
			lua_getfield(L, -1, "in_sync");
			in_sync = lua_toboolean(L, -1);
			lua_pop(L, 1);
		}
		lua_pop(L, 1);
	}
	lua_settop(L, TRY_TOP + 4);
	const struct fsm_member *m = fsm_members_find(v->members, id);
	lua_getfield(L, TRY_TOP + 1, "topic");
	struct str topic;
	topic.p = luaL_checklstring(L, -1, &topic.len);
	cluster_view_push_topic(L, v, topic);
	bool unclean = false;
	if (lua_istable(L, -1)) {
		lua_getfield(L, -1, "unclean");
		unclean = lua_toboolean(L, -1);
	}
	lua_settop(L, TRY_TOP + 4);
	if (!m || !m->alive)
		return m ? "target_not_alive" : "member_not_found";
	return !is_replica || (!in_sync && !unclean) ? "not_in_sync" : NULL;
}

static LUA_JUMPS void try_elect(lua_State *L, const struct cluster_view *v)
{
	push_subject(L, v, "assignment");
	lua_getfield(L, TRY_POLICY, "elect");
	lua_pushvalue(L, TRY_CLUSTER);
	lua_pushvalue(L, TRY_TOP + 1);
	lua_call(L, 2, 2);
	lua_pushvalue(L, -1);
	lua_replace(L, TRY_REASON);
	if (!lua_toboolean(L, -2))
		return;
	struct str id;
	id.p = luaL_checklstring(L, -2, &id.len);
	lua_createtable(L, 0, 4); /* TRY_TOP + 4 */
	lua_getfield(L, TRY_TOP + 1, "topic");
	lua_setfield(L, -2, "topic");
	lua_getfield(L, TRY_TOP + 1, "partition");
	lua_setfield(L, -2, "partition");
	lua_set_str(L, "leader", id);
	set_reason(L, TRY_REASON);
	sort_in(L, judge_leader(L, v, id));
}

static LUA_JUMPS void try_compatible(lua_State *L)
{
	lua_getfield(L, TRY_POLICY, "compatible");
	lua_getfield(L, TRY_ARGS, "old");
	lua_getfield(L, TRY_ARGS, "new");
	lua_getfield(L, TRY_ARGS, "topic");
	lua_call(L, 3, 2);
	lua_replace(L, TRY_REASON);
	if (lua_toboolean(L, -1))
		return;
	lua_createtable(L, 0, 1);
	set_reason(L, TRY_REASON);
	sort_in(L, "schema_conflict");
}

/* ---- the whole ---- */

static LUA_JUMPS void push_lines(lua_State *L, const struct buf *log)
{
	const char *p = (const char *)log->data, *end = p + log->len;
	push_new_list(L);
	for (lua_Integer i = 1; p < end; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		lua_pushlstring(L, p, (size_t)((nl ? nl : end) - p));
		lua_rawseti(L, -2, i);
		p = nl ? nl + 1 : end;
	}
}

int spec_try(lua_State *L)
{
	static const char *const fields[] = { "topic", "partitions", "member",    "assignment",
		                              "old",   "new",        "placement", NULL };
	lua_settop(L, TRY_ARGS);
	if (lua_isnil(L, TRY_ARGS)) {
		lua_newtable(L);
		lua_replace(L, TRY_ARGS);
	}
	struct spec_policy *p = luaL_checkudata(L, TRY_POLICY, SPEC_POLICY_TYPE);
	struct spec_cluster *c = spec_check_cluster(L, TRY_CLUSTER);
	luaL_checktype(L, TRY_ARGS, LUA_TTABLE);
	spec_check_fields(L, TRY_ARGS, "try", fields);
	const unsigned has = spec_policy_has(L, p, functions);
	buf_clear(c->view.log);
	push_new_list(L);
	push_new_list(L);
	lua_pushnil(L);
	if (has & HAS_PLACE)
		try_place(L, &c->view);
	else if (has & HAS_PLAN)
		try_plan(L, c);
	else if (has & (HAS_JUDGE | HAS_FINISHED))
		try_member(L, &c->view, has & HAS_JUDGE);
	else if (has & HAS_ELECT)
		try_elect(L, &c->view);
	else if (has & HAS_COMPATIBLE)
		try_compatible(L);
	else
		return luaL_error(L, "%s has none of the functions of a policy", p->chunk);
	lua_createtable(L, 0, 6);
	lua_pushvalue(L, TRY_INTENTS);
	lua_setfield(L, -2, "intents");
	lua_pushvalue(L, TRY_REFUSED);
	lua_setfield(L, -2, "refused");
	lua_pushvalue(L, TRY_REASON);
	lua_setfield(L, -2, "reason");
	push_lines(L, c->view.log);
	lua_setfield(L, -2, "logs");
	lua_set_integer(L, "instructions", (int64_t)p->instructions);
	lua_set_integer(L, "bytes", (int64_t)p->bytes);
	return 1;
}
