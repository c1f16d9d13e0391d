/* What the view says of members and servers. */
#include <lauxlib.h>
#include <string.h>

#include "control/lua_value.h"
#include "control/view_internal.h"
#include "fsm/members.h"
#include "model/records.h"

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
	view_check_read(L, rc);
	if (rc != 0) {
		lua_pushnil(L);
		return;
	}
	view_charge(v, L, VIEW_LOOKUP_WORK + record.len / 8);
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
			f.status = view_check_name(L, -1);
		else if (strcmp(key, "kind") == 0)
			f.kind = view_check_name(L, -1);
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
		view_charge(v, L, 1);
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
	cluster_view_push_member(L, v, view_check_name(L, 2));
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
	view_check_read(L, rc);
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
	const struct fsm_member_counts counts = check_counts(L, v, view_check_name(L, 2));
	lua_pushinteger(L, fsm_member_load(&counts));
	return 1;
}

static LUA_JUMPS int view_counts(lua_State *L)
{
	const struct cluster_view *v = cluster_view_check(L);
	const struct fsm_member_counts counts = check_counts(L, v, view_check_name(L, 2));
	lua_createtable(L, 0, 5);
	lua_set_integer(L, "owned", counts.owned);
	lua_set_integer(L, "coming", counts.coming);
	lua_set_integer(L, "leaving", counts.leaving);
	lua_set_integer(L, "leads", counts.leads);
	lua_set_integer(L, "replicas", counts.leads + counts.follows);
	return 1;
}

const luaL_Reg view_member_methods[] = {
	{ "members", view_members }, { "member", view_member }, { "servers", view_servers },
	{ "load", view_load },       { "counts", view_counts }, { NULL, NULL },
};
