/* What the view says of topics, partitions and moves. */
#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/view_internal.h"
#include "fsm/assignments.h"
#include "fsm/topics.h"
#include "model/records.h"

static LUA_JUMPS bool find_topic(lua_State *L, const struct cluster_view *v, struct str name, struct fsm_topic *out)
{
	const int rc = fsm_get_topic(v->txn, name, out);
	view_check_read(L, rc);
	return rc == 0;
}

/* The record and what veena adds to it, as GET gives them. */
static LUA_JUMPS void push_topic(lua_State *L, const struct cluster_view *v, const struct fsm_topic *t)
{
	view_charge(v, L, VIEW_LOOKUP_WORK + (t->record.len + t->tail.len) / 8);
	lua_push_json(L, fsm_topic_json(t, v->scratch));
	lua_set_integer(L, "schema_version", t->schema_version);
	if (lua_getfield(L, -1, "labels") == LUA_TNIL) {
		lua_newtable(L);
		lua_setfield(L, -3, "labels");
	}
	lua_pop(L, 1);
}

void cluster_view_push_topic(lua_State *L, const struct cluster_view *v, struct str name)
{
	struct fsm_topic t;
	if (find_topic(L, v, name, &t))
		push_topic(L, v, &t);
	else
		lua_pushnil(L);
}

static LUA_JUMPS int view_topic(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	cluster_view_push_topic(L, v, view_check_name(L, 2));
	return 1;
}

/* Opens, takes one, closes: between two steps of a Lua iterator nothing is held. */
static int topic_behind(const struct cluster_view *v, struct str prefix, struct str after, struct fsm_topic *out)
{
	struct fsm_topic_iter it = { 0 };
	int rc = fsm_topic_iter_open(&it, v->txn, prefix, after);
	if (rc == 0)
		rc = fsm_topic_iter_next(&it, out);
	fsm_topic_iter_close(&it);
	return rc;
}

/* Upvalues: view, prefix, name of the last topic given. */
static LUA_JUMPS int topics_step(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_replace(L, 1);
	const struct cluster_view *v = cluster_view_check(L);
	struct fsm_topic t;
	const int rc =
	    topic_behind(v, view_check_name(L, lua_upvalueindex(2)), view_check_name(L, lua_upvalueindex(3)), &t);
	view_check_read(L, rc);
	if (rc != 0)
		return 0;
	lua_push_str(L, t.name);
	lua_replace(L, lua_upvalueindex(3));
	push_topic(L, v, &t);
	return 1;
}

static LUA_JUMPS int view_topics(lua_State *L)
{
	cluster_view_check(L);
	lua_settop(L, 2);
	lua_pushvalue(L, 1);
	lua_pushstring(L, luaL_optstring(L, 2, ""));
	lua_pushliteral(L, "");
	lua_pushcclosure(L, topics_step, 3);
	return 1;
}

static const char *partition_state(const struct cluster_view *v, const struct fsm_owner *o)
{
	const struct fsm_member *m = fsm_members_find(v->members, o->owner);
	return fsm_assignment_state(o, m && m->alive);
}

static LUA_JUMPS void set_replicas(lua_State *L, const struct cluster_view *v, struct str topic, uint32_t p)
{
	struct fsm_replicas set;
	view_check_read(L, fsm_get_replicas(v->txn, topic, p, &set));
	if (set.count == 0)
		return;
	view_charge(v, L, VIEW_LOOKUP_WORK);
	lua_set_integer(L, "leader_epoch", (int64_t)set.epoch);
	lua_createtable(L, (int)set.count, 0);
	for (size_t i = 0; i < set.count; i++) {
		lua_createtable(L, 0, 2);
		lua_set_str(L, "id", set.items[i].id);
		lua_set_bool(L, "in_sync", set.items[i].in_sync);
		if (set.items[i].replaces.len > 0)
			lua_set_str(L, "replaces", set.items[i].replaces);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	sandbox_mark_array(L, -1);
	lua_setfield(L, -2, "replicas");
}

static LUA_JUMPS void push_assignment(lua_State *L, const struct cluster_view *v, const struct fsm_topic *t,
                                      struct str topic_id, uint32_t p)
{
	struct fsm_owner o;
	fsm_topic_owner(t, p, &o);
	view_charge(v, L, VIEW_LOOKUP_WORK);
	lua_createtable(L, 0, 8);
	lua_set_str(L, "topic", t->name);
	lua_set_str(L, "topic_id", topic_id);
	lua_set_integer(L, "partition", p);
	lua_set_str(L, "state", str_of(partition_state(v, &o)));
	lua_set_str(L, "owner_id", o.owner);
	lua_set_integer(L, "version", (int64_t)o.version);
	if (o.target.len > 0) {
		lua_set_str(L, "target_id", o.target);
		lua_set_integer(L, "move_id", (int64_t)o.move_id);
	}
	if (o.pinned)
		lua_set_bool(L, "pinned", true);
	if (t->replicated)
		set_replicas(L, v, t->name, p);
}

static LUA_JUMPS struct str topic_id_of(lua_State *L, const struct cluster_view *v, const struct fsm_topic *t)
{
	struct topic record;
	struct err e;
	if (record_read_json(&topic_type, t->record, v->scratch, &record, NULL, &e) != 0)
		luaL_error(L, "the stored topic does not read: %s", e.msg);
	return record.id.p ? record.id : STR_LIT("");
}

void cluster_view_push_assignment(lua_State *L, const struct cluster_view *v, struct str topic, uint32_t p)
{
	struct fsm_topic t;
	if (find_topic(L, v, topic, &t) && p < t.partition_count)
		push_assignment(L, v, &t, topic_id_of(L, v, &t), p);
	else
		lua_pushnil(L);
}

static LUA_JUMPS int view_assignments(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	struct fsm_topic t;
	lua_settop(L, 2);
	lua_newtable(L);
	sandbox_mark_array(L, -1);
	if (!find_topic(L, v, view_check_name(L, 2), &t))
		return 1;
	const struct str id = topic_id_of(L, v, &t);
	for (uint32_t p = 0; p < t.partition_count; p++) {
		push_assignment(L, v, &t, id, p);
		lua_rawseti(L, -2, (lua_Integer)p + 1);
	}
	return 1;
}

static LUA_JUMPS int view_assignment(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const lua_Integer p = luaL_checkinteger(L, 3);
	struct fsm_topic t;
	if (find_topic(L, v, view_check_name(L, 2), &t) && p >= 0 && p < (lua_Integer)t.partition_count)
		push_assignment(L, v, &t, topic_id_of(L, v, &t), (uint32_t)p);
	else
		lua_pushnil(L);
	return 1;
}

/* One step of a walk over places: what stands behind (topic, partition) of `after`, or the first. Copied out, since the
 * key is the cursor's. */
typedef int (*place_open)(struct fsm_place_iter *it, const struct cluster_view *v, struct str member,
                          const struct fsm_place *after);

static int open_held(struct fsm_place_iter *it, const struct cluster_view *v, struct str member,
                     const struct fsm_place *after)
{
	return fsm_held_open(it, v->txn, member, after);
}

static int open_moves(struct fsm_place_iter *it, const struct cluster_view *v, struct str member,
                      const struct fsm_place *after)
{
	(void)member;
	return fsm_moves_open(it, v->txn, after);
}

/* The next place with one of `roles` (0: any), its topic copied into the arena. */
static int place_behind(const struct cluster_view *v, place_open open, struct str member, uint32_t roles,
                        const struct fsm_place *after, struct fsm_place *out)
{
	struct fsm_place_iter it = { 0 };
	int rc = open(&it, v, member, after);
	while (rc == 0) {
		rc = fsm_place_next(&it, out);
		if (rc == 0 && (roles == 0 || (out->roles & roles)))
			break;
	}
	if (rc == 0)
		out->topic = arena_str(v->scratch, out->topic);
	fsm_place_close(&it);
	return rc;
}

/* Pushes the assignment of a place, or nil if its topic is gone (an orphan). */
static LUA_JUMPS void push_place(lua_State *L, const struct cluster_view *v, const struct fsm_place *at)
{
	struct fsm_topic t;
	if (find_topic(L, v, at->topic, &t) && at->partition < t.partition_count)
		push_assignment(L, v, &t, topic_id_of(L, v, &t), at->partition);
	else
		lua_pushnil(L);
}

/* Upvalues: view, member, topic and partition of the last place given. */
static LUA_JUMPS int owned_step(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_replace(L, 1);
	const struct cluster_view *v = cluster_view_check(L);
	const struct str member = view_check_name(L, lua_upvalueindex(2));
	for (;;) {
		struct fsm_place after = { .topic = view_check_name(L, lua_upvalueindex(3)),
			                   .partition = (uint32_t)lua_tointeger(L, lua_upvalueindex(4)) };
		struct fsm_place at;
		const int rc = place_behind(v, open_held, member, FSM_ROLE_OWNER, after.topic.len ? &after : NULL, &at);
		view_check_read(L, rc);
		if (rc != 0)
			return 0;
		lua_push_str(L, at.topic);
		lua_replace(L, lua_upvalueindex(3));
		lua_pushinteger(L, at.partition);
		lua_replace(L, lua_upvalueindex(4));
		push_place(L, v, &at);
		if (!lua_isnil(L, -1))
			return 1;
		lua_pop(L, 1);
	}
}

static LUA_JUMPS int view_owned(lua_State *L)
{
	cluster_view_check(L);
	luaL_checkstring(L, 2);
	lua_pushvalue(L, 1);
	lua_pushvalue(L, 2);
	lua_pushliteral(L, "");
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, owned_step, 4);
	return 1;
}

static LUA_JUMPS int view_moves(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	lua_newtable(L);
	sandbox_mark_array(L, -1);
	lua_Integer n = 0;
	struct fsm_place after;
	for (bool first = true;; first = false) {
		struct fsm_place at;
		const int rc = place_behind(v, open_moves, STR_LIT(""), 0, first ? NULL : &after, &at);
		view_check_read(L, rc);
		if (rc != 0)
			return 1;
		after = at;
		push_place(L, v, &at);
		if (lua_isnil(L, -1))
			lua_pop(L, 1);
		else
			lua_rawseti(L, -2, ++n);
	}
}

const luaL_Reg view_topic_methods[] = {
	{ "topic", view_topic },
	{ "topics", view_topics },
	{ "assignments", view_assignments },
	{ "assignment", view_assignment },
	{ "owned", view_owned },
	{ "moves", view_moves },
	{ NULL, NULL },
};
