#include "control/view.h"

#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "fsm/assignments.h"
#include "fsm/topics.h"
#include "model/records.h"

/* Each look-up in the store counts as so much work: a page or two of the map, a record to parse. */
#define LOOKUP_WORK 20

static LUA_JUMPS void charge(const struct cluster_view *v, lua_State *L, uint64_t work)
{
	if (v->sb)
		sandbox_charge(L, work);
}

struct cluster_view *cluster_view_check(lua_State *L)
{
	struct cluster_view **box = luaL_testudata(L, 1, VIEW_TYPE);
	if (!box)
		luaL_error(L, "methods of the cluster are called with a colon: cluster:method()");
	charge(*box, L, LOOKUP_WORK);
	arena_reset((*box)->scratch);
	return *box;
}

static LUA_JUMPS struct str check_name(lua_State *L, int arg)
{
	struct str s;
	s.p = luaL_checklstring(L, arg, &s.len);
	return s;
}

/* A failed read of the store ends the run: a policy must not decide on half a view. */
static LUA_JUMPS void check_read(lua_State *L, int rc)
{
	if (rc != 0 && rc != ERR_NOTFOUND)
		luaL_error(L, "the state could not be read: %s", err_text(rc));
}

/* ---- members ---- */

static struct view_pending pending_of(const struct cluster_view *v, struct str id)
{
	for (size_t i = 0; i < v->pending_count; i++) {
		if (str_eq(v->pending[i].member, id))
			return v->pending[i];
	}
	return (struct view_pending){ id, 0, 0 };
}

double cluster_view_watched_silence(const struct cluster_view *v, struct str id)
{
	for (size_t i = 0; i < v->silence_count; i++) {
		if (str_eq(v->silences[i].member, id))
			return v->silences[i].silent_s;
	}
	return -1;
}

/* `record` is on top. */
static LUA_JUMPS double silence_of(lua_State *L, const struct cluster_view *v, struct str id)
{
	const double watched_s = cluster_view_watched_silence(v, id);
	if (watched_s >= 0)
		return watched_s;
	lua_getfield(L, -1, "last_heartbeat");
	const double since_s = v->now_s - (double)lua_tointeger(L, -1);
	lua_pop(L, 1);
	return since_s < 0 ? 0 : since_s < v->leader_for_s ? since_s : v->leader_for_s;
}

static LUA_JUMPS void push_member(lua_State *L, const struct cluster_view *v, const struct fsm_member *m)
{
	struct str record;
	const int rc = fsm_get_member_record(v->txn, m->id, &record);
	check_read(L, rc);
	if (rc != 0) {
		lua_pushnil(L);
		return;
	}
	charge(v, L, LOOKUP_WORK + record.len / 8);
	lua_push_json(L, record);
	lua_pushnumber(L, silence_of(L, v, m->id));
	lua_setfield(L, -2, "silent_s");
	lua_set_bool(L, "draining", m->draining);
	lua_set_str(L, "kind", str_of(fsm_member_kind_name(m->kind)));
	lua_set_bool(L, "placeable", m->placeable);
	lua_push_json(L, m->tags);
	lua_setfield(L, -2, "tags");
	lua_push_json(L, m->labels);
	lua_setfield(L, -2, "labels");
}

struct member_filter {
	struct str status, kind; /* p NULL: any */
	int draining, placeable; /* -1: any */
};

static LUA_JUMPS struct member_filter check_filter(lua_State *L, int arg)
{
	struct member_filter f = { .draining = -1, .placeable = -1 };
	if (lua_isnoneornil(L, arg))
		return f;
	luaL_checktype(L, arg, LUA_TTABLE);
	for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
		if (strcmp(key, "status") == 0)
			f.status = check_name(L, -1);
		else if (strcmp(key, "kind") == 0)
			f.kind = check_name(L, -1);
		else if (strcmp(key, "draining") == 0)
			f.draining = lua_toboolean(L, -1);
		else if (strcmp(key, "placeable") == 0)
			f.placeable = lua_toboolean(L, -1);
		else
			luaL_error(L, "members{...} filters by status, draining, placeable and kind, not by '%s'", key);
	}
	return f;
}

static bool fits(const struct member_filter *f, const struct fsm_member *m)
{
	return (!f->status.p || str_is(f->status, m->alive ? MEMBER_ALIVE : MEMBER_DEAD)) &&
	       (!f->kind.p || str_is(f->kind, fsm_member_kind_name(m->kind))) &&
	       (f->draining < 0 || f->draining == (int)m->draining) &&
	       (f->placeable < 0 || f->placeable == (int)m->placeable);
}

static LUA_JUMPS int view_members(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct member_filter f = check_filter(L, 2);
	lua_newtable(L);
	sandbox_mark_array(L, -1);
	lua_Integer n = 0;
	for (size_t i = 0; i < v->members->count; i++) {
		charge(v, L, 1);
		if (!fits(&f, &v->members->rows[i]))
			continue;
		push_member(L, v, &v->members->rows[i]);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

void cluster_view_push_member(lua_State *L, const struct cluster_view *v, struct str id)
{
	const struct fsm_member *m = fsm_members_find(v->members, id);
	if (m)
		push_member(L, v, m);
	else
		lua_pushnil(L);
}

static LUA_JUMPS int view_member(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	cluster_view_push_member(L, v, check_name(L, 2));
	return 1;
}

static LUA_JUMPS int view_servers(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	lua_newtable(L);
	sandbox_mark_array(L, -1);
	for (size_t i = 0; i < v->server_count; i++) {
		const struct view_server *s = &v->servers[i];
		lua_createtable(L, 0, 4);
		lua_set_str(L, "id", s->id);
		lua_set_bool(L, "voter", s->voter);
		lua_set_bool(L, "leader", s->leader);
		lua_set_bool(L, "alive", s->alive);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

static LUA_JUMPS struct fsm_member_counts check_counts(lua_State *L, const struct cluster_view *v, struct str id)
{
	struct fsm_member_extra extra;
	const int rc = fsm_get_member_extra(v->txn, id, &extra);
	check_read(L, rc);
	struct fsm_member_counts counts = { 0 };
	if (rc == 0)
		counts = extra.counts;
	const struct view_pending pending = pending_of(v, id);
	counts.coming += pending.partitions;
	counts.follows += pending.copies;
	return counts;
}

static LUA_JUMPS int view_load(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct fsm_member_counts counts = check_counts(L, v, check_name(L, 2));
	lua_pushinteger(L, fsm_member_load(&counts));
	return 1;
}

static LUA_JUMPS int view_counts(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct fsm_member_counts counts = check_counts(L, v, check_name(L, 2));
	lua_createtable(L, 0, 5);
	lua_set_integer(L, "owned", counts.owned);
	lua_set_integer(L, "coming", counts.coming);
	lua_set_integer(L, "leaving", counts.leaving);
	lua_set_integer(L, "leads", counts.leads);
	lua_set_integer(L, "replicas", counts.leads + counts.follows);
	return 1;
}

/* ---- topics and assignments ---- */

static LUA_JUMPS bool find_topic(lua_State *L, const struct cluster_view *v, struct str name, struct fsm_topic *out)
{
	const int rc = fsm_get_topic(v->txn, name, out);
	check_read(L, rc);
	return rc == 0;
}

/* The record and what veena adds to it, as GET gives them. */
static LUA_JUMPS void push_topic(lua_State *L, const struct cluster_view *v, const struct fsm_topic *t)
{
	charge(v, L, LOOKUP_WORK + (t->record.len + t->tail.len) / 8);
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
	cluster_view_push_topic(L, v, check_name(L, 2));
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
	const int rc = topic_behind(v, check_name(L, lua_upvalueindex(2)), check_name(L, lua_upvalueindex(3)), &t);
	check_read(L, rc);
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
	check_read(L, fsm_get_replicas(v->txn, topic, p, &set));
	if (set.count == 0)
		return;
	charge(v, L, LOOKUP_WORK);
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
	charge(v, L, LOOKUP_WORK);
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
	if (!find_topic(L, v, check_name(L, 2), &t))
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
	if (find_topic(L, v, check_name(L, 2), &t) && p >= 0 && p < (lua_Integer)t.partition_count)
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
	const struct str member = check_name(L, lua_upvalueindex(2));
	for (;;) {
		struct fsm_place after = { .topic = check_name(L, lua_upvalueindex(3)),
			                   .partition = (uint32_t)lua_tointeger(L, lua_upvalueindex(4)) };
		struct fsm_place at;
		const int rc = place_behind(v, open_held, member, FSM_ROLE_OWNER, after.topic.len ? &after : NULL, &at);
		check_read(L, rc);
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
		check_read(L, rc);
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

/* ---- the rest ---- */

static LUA_JUMPS int view_setting(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct str name = check_name(L, 2);
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
	const struct str text = check_name(L, 2);
	charge(v, L, 1 + text.len / 8);
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
	const struct str name = check_name(L, 2);
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
		{ "members", view_members },
		{ "member", view_member },
		{ "servers", view_servers },
		{ "load", view_load },
		{ "counts", view_counts },
		{ "owned", view_owned },
		{ "topic", view_topic },
		{ "topics", view_topics },
		{ "assignments", view_assignments },
		{ "moves", view_moves },
		{ "assignment", view_assignment },
		{ "allowed", cluster_view_allowed },
		{ "setting", view_setting },
		{ "random", view_random },
		{ "log", view_log },
		{ NULL, NULL },
	};
	if (!luaL_newmetatable(L, VIEW_TYPE))
		return;
	luaL_newlib(L, methods);
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
