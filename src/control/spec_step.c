/* What follows from a cluster: intents applied, time that passes, and both until nothing moves any more.
 *
 * Each step is a new cluster on a copy of the store, changed by the real commands; the old one stays as it was. */
#include <lauxlib.h>
#include <string.h>

#include "base/embed.h"
#include "control/lua_value.h"
#include "control/spec_internal.h"
#include "fsm/assignments.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/records.h"

/* A cluster like `from`, whose commands are still to come. */
static LUA_JUMPS struct spec_cluster *push_next(lua_State *L, const struct spec_cluster *from)
{
	struct spec_cluster *c = spec_push_cluster(L);
	memcpy(c->settings, from->settings, sizeof(c->settings));
	for (size_t i = 0; i < from->view.server_count; i++) {
		c->servers[i] = from->servers[i];
		c->servers[i].id = arena_str(&c->arena, from->servers[i].id);
	}
	c->view.server_count = from->view.server_count;
	c->view.settings = c->settings;
	c->view.setting_count = from->view.setting_count;
	c->view.now_s = from->view.now_s;
	c->view.leader_for_s = from->view.leader_for_s;
	c->view.term = from->view.term;
	c->view.leader = arena_str(&c->arena, from->view.leader);
	return c;
}

static LUA_JUMPS int finish(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, int box)
{
	const raft_index index = from->view.index + c->entry_count;
	spec_open_store(L, c, from, 0);
	spec_apply_entries(L, c, index);
	spec_drop_entries(c);
	spec_open_view(L, c);
	spec_push_view(L, c, box);
	return 1;
}

/* ---- apply ---- */

static LUA_JUMPS struct str text_of(lua_State *L, struct spec_cluster *c, const char *name)
{
	struct str s = STR_LIT("");
	if (lua_getfield(L, -1, name) == LUA_TSTRING) {
		s.p = lua_tolstring(L, -1, &s.len);
		s = arena_str(&c->arena, s);
	}
	lua_pop(L, 1);
	return s;
}

static LUA_JUMPS bool flag_of(lua_State *L, const char *name)
{
	lua_getfield(L, -1, name);
	const bool flag = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return flag;
}

struct stored {
	struct str id;
	struct fsm_owner owner;
	uint64_t epoch;
	bool unclean;
};

static LUA_JUMPS void find(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, struct str topic,
                           int64_t partition, struct stored *out)
{
	struct fsm_topic t;
	struct topic record;
	struct topic_extra extra;
	struct fsm_replicas set;
	if (fsm_get_topic(from->view.txn, topic, &t) != 0 || partition < 0 || partition >= (int64_t)t.partition_count ||
	    record_read_json(&topic_type, t.record, &c->arena, &record, NULL, NULL) != 0 ||
	    fsm_get_topic_extra(from->view.txn, topic, &c->arena, &extra) != 0 ||
	    fsm_get_replicas(from->view.txn, topic, (uint32_t)partition, &set) != 0)
		luaL_error(L, "apply: the cluster has no partition %s/%d", topic.p, (int)partition);
	out->id = record.id;
	out->epoch = set.epoch;
	out->unclean = extra.unclean;
	fsm_topic_owner(&t, (uint32_t)partition, &out->owner);
}

static LUA_JUMPS void apply_partition(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, struct str topic)
{
	struct stored s;
	lua_getfield(L, -1, "partition");
	const int64_t p = luaL_checkinteger(L, -1);
	lua_pop(L, 1);
	const struct str to = text_of(L, c, "to"), leader = text_of(L, c, "leader");
	find(L, c, from, topic, p, &s);
	if (flag_of(L, "abort"))
		spec_add_command(L, c, CMD_MOVE_ABORT_IF,
		                 &(struct cmd_move_abort_if){ topic, p, s.id, s.owner.move_id });
	else if (leader.len)
		spec_add_command(L, c, CMD_LEADER_CHANGE,
		                 &(struct cmd_leader_change){ .topic = topic,
		                                              .expect_id = s.id,
		                                              .partition = p,
		                                              .expect_epoch = s.epoch,
		                                              .leader = leader,
		                                              .unclean = s.unclean });
	else if (s.owner.owner.len == 0)
		spec_add_command(L, c, CMD_PARTITION_PLACE, &(struct cmd_partition_place){ topic, p, to, s.id });
	else
		spec_add_command(L, c, CMD_MOVE_SET_IF,
		                 &(struct cmd_move_set_if){ .topic = topic,
		                                            .partition = p,
		                                            .expect_id = s.id,
		                                            .expected_owner = s.owner.owner,
		                                            .target = to });
}

static LUA_JUMPS void apply_member(lua_State *L, struct spec_cluster *c, struct str member)
{
	if (flag_of(L, "dead"))
		spec_add_command(L, c, CMD_MEMBER_DEAD, &(struct cmd_name){ member });
	else if (flag_of(L, "remove"))
		spec_add_command(L, c, CMD_MEMBER_REMOVE_IF, &(struct cmd_member_at){ member, (int64_t)c->view.now_s });
	else
		luaL_error(L, "apply: an intent about a member says dead or remove");
}

/* c:apply(intents) */
static LUA_JUMPS int apply(lua_State *L)
{
	struct spec_cluster *from = spec_check_cluster(L, 1);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	struct spec_cluster *c = push_next(L, from); /* 3 */
	for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
		luaL_checktype(L, -1, LUA_TTABLE);
		const struct str topic = text_of(L, c, "topic");
		if (topic.len)
			apply_partition(L, c, from, topic);
		else
			apply_member(L, c, text_of(L, c, "member"));
		lua_settop(L, 3);
	}
	return finish(L, c, from, 3);
}

/* ---- after ---- */

static LUA_JUMPS bool is_listed(lua_State *L, const char *name, struct str id)
{
	bool found = false;
	if (lua_getfield(L, 2, name) == LUA_TTABLE) {
		for (lua_Integer i = 1; !found && lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
			found = str_is(id, lua_tostring(L, -1));
			lua_pop(L, 1);
		}
		lua_settop(L, 3);
		return found;
	}
	lua_pop(L, 1);
	return false;
}

/* A listed name that is nobody's is a slip of the spec. */
static LUA_JUMPS void check_names(lua_State *L, const struct spec_cluster *c, const char *name)
{
	if (lua_getfield(L, 2, name) == LUA_TTABLE) {
		for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
			struct str id;
			id.p = luaL_checklstring(L, -1, &id.len);
			if (!fsm_members_find(c->view.members, id))
				luaL_error(L, "after: no member '%s'", id.p);
			lua_pop(L, 1);
		}
	}
	lua_settop(L, 3);
}

/* Those that live go on saying so. */
static LUA_JUMPS void step_member(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, struct str id)
{
	struct str record;
	struct member m;
	if (fsm_get_member_record(from->view.txn, id, &record) != 0 ||
	    record_read_json(&member_type, record, &c->arena, &m, NULL, NULL) != 0)
		luaL_error(L, "after: the member '%s' does not read", id.p);
	if (is_listed(L, "dead", id)) {
		spec_add_command(L, c, CMD_MEMBER_DEAD, &(struct cmd_name){ m.id });
	} else if (is_listed(L, "alive", id) || str_is(m.status, MEMBER_ALIVE)) {
		m.status = STR_LIT(MEMBER_ALIVE);
		m.last_heartbeat = (int64_t)c->view.now_s;
		spec_add_command(L, c, CMD_MEMBER_JOIN, &m);
	}
}

/* Every move whose two ends live comes to its end. */
static LUA_JUMPS void complete_moves(lua_State *L, struct spec_cluster *c, struct spec_cluster *from)
{
	struct fsm_place_iter it = { 0 };
	struct fsm_place at, *all = NULL;
	uint64_t count = 0;
	size_t n = 0;
	int rc = fsm_count_moves(from->view.txn, &count);
	if (rc == 0)
		rc = fsm_moves_open(&it, from->view.txn, NULL);
	all = arena_zalloc(&c->arena, ((size_t)count + 1) * sizeof(*all));
	while (rc == 0 && n < count && (rc = fsm_place_next(&it, &at)) == 0) {
		all[n] = at;
		all[n++].topic = arena_str(&c->arena, at.topic);
	}
	fsm_place_close(&it);
	for (size_t i = 0; i < n; i++) {
		struct stored s;
		find(L, c, from, all[i].topic, all[i].partition, &s);
		const struct fsm_member *source = fsm_members_find(from->view.members, s.owner.owner);
		const struct fsm_member *target = fsm_members_find(from->view.members, s.owner.target);
		if (source && source->alive && target && target->alive)
			spec_add_command(L, c, CMD_MOVE_COMPLETE,
			                 &(struct cmd_move_complete){ all[i].topic, all[i].partition, s.owner.owner,
			                                              s.owner.target });
	}
}

/* c:after{ seconds=, dead={}, alive={}, complete= } */
static LUA_JUMPS int after(lua_State *L)
{
	static const char *const fields[] = { "seconds", "dead", "alive", "complete", NULL };
	struct spec_cluster *from = spec_check_cluster(L, 1);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	spec_check_fields(L, 2, "after", fields);
	struct spec_cluster *c = push_next(L, from); /* 3 */
	check_names(L, from, "dead");
	check_names(L, from, "alive");
	lua_getfield(L, 2, "seconds");
	const double seconds = luaL_optnumber(L, -1, 0);
	lua_settop(L, 3);
	c->view.now_s += seconds;
	c->view.leader_for_s += seconds;
	lua_getfield(L, 2, "complete");
	const bool complete = lua_toboolean(L, -1);
	lua_settop(L, 3);
	if (complete)
		complete_moves(L, c, from);
	for (size_t i = 0; i < from->view.members->count; i++)
		step_member(L, c, from, from->view.members->rows[i].id);
	for (size_t i = 0; i < c->view.server_count; i++) {
		struct view_server *s = &c->servers[i];
		s->alive = (s->alive || is_listed(L, "alive", s->id)) && !is_listed(L, "dead", s->id);
	}
	return finish(L, c, from, 3);
}

void spec_add_methods(lua_State *L)
{
	static const luaL_Reg methods[] = { { "apply", apply }, { "after", after }, { NULL, NULL } };
	cluster_view_push_metatable(L);
	lua_getfield(L, -1, "__index");
	lua_getupvalue(L, -1, 1);
	luaL_setfuncs(L, methods, 0);
	lua_pop(L, 3);
}

/* veena.settle: lua/spec/settle.lua, given veena.try. */
int spec_settle(lua_State *L)
{
	const int nargs = lua_gettop(L);
	for (size_t i = 0; i < embedded_file_count; i++) {
		const struct embedded_file *f = &embedded_files[i];
		if (strcmp(f->name, "lua/spec/settle.lua") != 0)
			continue;
		if (luaL_loadbufferx(L, f->data, f->len, "=settle.lua", "t") != LUA_OK)
			return lua_error(L);
		lua_call(L, 0, 1);
		lua_insert(L, 1);
		lua_pushcfunction(L, spec_try);
		lua_insert(L, 2);
		lua_call(L, nargs + 1, 3);
		return 3;
	}
	return luaL_error(L, "settle.lua is not in this build");
}
