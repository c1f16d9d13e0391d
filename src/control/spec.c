/* veena.spec: the daemon's own view, sandbox and core rules as a Lua module for busted.
 *
 *   local veena = require "veena.spec"
 *   local c = veena.cluster{ members = {...}, topics = {...}, assignments = {...} }
 *   local p = veena.policy("policies/placement.lua")
 *   p.place(c, "orders", {0, 1})        -- raises {kind=, message=, line=}
 *   veena.try(p, c, { topic = "orders" })
 *
 * A cluster is a real store in an unlinked temporary file, filled by real commands through fsm_apply, so that a spec
 * sees what a policy sees in the daemon. A policy runs in the daemon's sandbox under the daemon's budgets. */
#include <assert.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "control/lua_value.h"
#include "control/spec_internal.h"
#include "control/view.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"
#include "model/records.h"
#include "model/rules.h"

#define CLUSTER_TYPE "veena.spec.cluster"
#define INDEX_DEFAULT 1000
#define NOW_DEFAULT 1700000000.0 /* Unix seconds */
#define ENTRIES_MAX 65536

int luaopen_veena_spec(lua_State *L);

const struct view_setting spec_default_settings[SPEC_SETTINGS] = {
	{ "max_moves", 8 },  { "dead_after_s", 30 },          { "failover_after_s", 10 },
	{ "min_voters", 3 }, { "member_heartbeat_ms", 5000 }, { "replica_lag", 4096 },
};

static struct slab *entry_at(const struct spec_cluster *c, size_t i)
{
	struct slab *s;
	memcpy(&s, c->entries.data + i * sizeof(s),
	       sizeof(s)); /* NOLINT(bugprone-sizeof-expression): pointers in a buf */
	return s;
}

void spec_drop_entries(struct spec_cluster *c)
{
	for (size_t i = 0; i < c->entry_count; i++)
		slab_unref(entry_at(c, i));
	c->entry_count = 0;
	buf_fini(&c->entries);
	entry_builder_fini(&c->builder);
}

static int cluster_gc(lua_State *L)
{
	struct spec_cluster **box = luaL_checkudata(L, 1, CLUSTER_TYPE);
	struct spec_cluster *c = *box;
	*box = NULL;
	if (!c)
		return 0;
	spec_drop_entries(c);
	if (c->fsm) {
		fsm_reader_fini(&c->reader);
		(void)fsm_close(c->fsm, false, NULL); /* a scratch file: there is nothing to keep */
	}
	if (c->path)
		unlink(c->path);
	mem_free(c->path);
	arena_fini(&c->arena);
	arena_fini(&c->scratch);
	buf_fini(&c->log);
	buf_fini(&c->json);
	mem_free(c);
	return 0;
}

struct spec_cluster *spec_push_cluster(lua_State *L)
{
	struct spec_cluster **box = lua_newuserdatauv(L, sizeof(*box), 0);
	*box = NULL;
	if (luaL_newmetatable(L, CLUSTER_TYPE)) {
		lua_pushcfunction(L, cluster_gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_setmetatable(L, -2);
	*box = mem_zalloc(sizeof(**box));
	return *box;
}

/* ---- reading the description ---- */

void spec_check_fields(lua_State *L, int index, const char *what, const char *const *names)
{
	for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
		size_t i = 0;
		while (key && names[i] && strcmp(names[i], key) != 0)
			i++;
		if (!key || !names[i])
			luaL_error(L, "%s has no field '%s'", what, key ? key : luaL_typename(L, -2));
	}
}

void spec_add_command(lua_State *L, struct spec_cluster *c, enum command_type type, const void *payload)
{
	if (c->entry_count == ENTRIES_MAX)
		luaL_error(L, "a cluster of a spec takes at most %d records", ENTRIES_MAX);
	entry_builder_clear(&c->builder);
	entry_builder_add(&c->builder, type, payload);
	const struct entry_header h = { .actor = STR_LIT("spec"), .origin = STR_LIT("spec") };
	struct slab *entry;
	struct err e;
	if (entry_builder_finish(&c->builder, &h, &entry, &e) != 0)
		luaL_error(L, "%s", e.msg);
	buf_put(&c->entries, &entry, sizeof(entry)); /* NOLINT(bugprone-sizeof-expression) */
	c->entry_count++;
}

/* Moves the named fields of the table on top, one by one, into a fresh table that is left on top of it. */
static LUA_JUMPS void split_fields(lua_State *L, const char *const *names)
{
	const int from = lua_gettop(L);
	lua_newtable(L);
	for (; *names; names++) {
		lua_getfield(L, from, *names);
		lua_setfield(L, -2, *names);
		lua_pushnil(L);
		lua_setfield(L, from, *names);
	}
}

/* The table at `index` as a record of type t: the strict reader names an unknown or ill-typed field. */
static LUA_JUMPS void read_record(lua_State *L, struct spec_cluster *c, int index, const struct record_type *t,
                                  void *out)
{
	buf_clear(&c->json);
	struct json_writer w = { .out = &c->json };
	lua_write_json(L, index, &w);
	const struct str text = { arena_dup(&c->arena, c->json.data, c->json.len), c->json.len };
	struct err e;
	if (record_read_json(t, text, &c->arena, out, NULL, &e) != 0)
		luaL_error(L, "%s", e.msg);
}

static LUA_JUMPS struct str field_text(lua_State *L, struct spec_cluster *c, int index, const char *name,
                                       const char *otherwise)
{
	lua_getfield(L, index, name);
	size_t len;
	const char *s = luaL_optlstring(L, -1, otherwise, &len);
	struct str out = { arena_strndup(&c->arena, s, len), len };
	lua_pop(L, 1);
	return out;
}

static LUA_JUMPS bool field_flag(lua_State *L, int index, const char *name, bool otherwise)
{
	const bool flag = lua_getfield(L, index, name) == LUA_TNIL ? otherwise : (bool)lua_toboolean(L, -1);
	lua_pop(L, 1);
	return flag;
}

/* Of the table on top, pushed: the description is the caller's. */
static LUA_JUMPS void copy_table(lua_State *L)
{
	lua_newtable(L);
	for (lua_pushnil(L); lua_next(L, -3); lua_pop(L, 1)) {
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, -5);
	}
}

/* A member may be given as its id alone. */
static LUA_JUMPS void add_member(lua_State *L, struct spec_cluster *c)
{
	static const char *const beyond[] = { "kind", "placeable", "tags", "labels", NULL };
	if (lua_type(L, -1) == LUA_TSTRING) {
		lua_newtable(L);
		lua_pushvalue(L, -2);
		lua_setfield(L, -2, "id");
	} else {
		luaL_checktype(L, -1, LUA_TTABLE);
		copy_table(L);
	}
	split_fields(L, beyond);
	const int extra_at = lua_gettop(L);
	struct member m;
	read_record(L, c, extra_at - 1, &member_type, &m);
	if (m.id.len == 0)
		luaL_error(L, "a member has no id");
	if (m.status.len == 0)
		m.status = STR_LIT(MEMBER_ALIVE);
	if (m.addr.len == 0)
		m.addr = STR_LIT("127.0.0.1:7942");
	if (m.last_heartbeat == 0 && str_is(m.status, MEMBER_ALIVE))
		m.last_heartbeat = (int64_t)c->view.now_s;
	const bool draining = m.draining;
	m.draining = false;
	spec_add_command(L, c, CMD_MEMBER_JOIN, &m);
	if (draining)
		spec_add_command(L, c, CMD_MEMBER_DRAINING,
		                 &(struct cmd_member_draining){ .id = m.id, .draining = true });

	struct member_extra x = {
		.id = m.id,
		.kind = field_text(L, c, extra_at, "kind", MEMBER_KIND_SERVER),
		.placeable = field_flag(L, extra_at, "placeable", true),
	};
	if (lua_getfield(L, extra_at, "tags") == LUA_TTABLE) {
		lua_newtable(L);
		lua_pushvalue(L, -2);
		lua_setfield(L, -2, "tags");
		lua_pushliteral(L, "x");
		lua_setfield(L, -2, "id");
		lua_pushliteral(L, MEMBER_KIND_SERVER);
		lua_setfield(L, -2, "kind");
		lua_pushboolean(L, 1);
		lua_setfield(L, -2, "placeable");
		struct member_extra tagged;
		read_record(L, c, lua_gettop(L), &member_extra_type, &tagged);
		x.tags = tagged.tags;
	}
	if (!x.placeable || !str_is(x.kind, MEMBER_KIND_SERVER) || x.tags.count)
		spec_add_command(L, c, CMD_MEMBER_EXTRA, &x);
}

/* The id that add_topic gave or was given. */
static LUA_JUMPS struct str find_id(lua_State *L, struct spec_cluster *c, struct str topic)
{
	for (size_t i = 0; i < c->topic_count; i++) {
		if (str_eq(c->topics[i].name, topic))
			return c->topics[i].id;
	}
	luaL_error(L, "the cluster has no topic '%s'", topic.p);
	return STR_LIT("");
}

static LUA_JUMPS void remember_id(struct spec_cluster *c, const struct topic *t)
{
	struct spec_topic *more = arena_alloc(&c->arena, (c->topic_count + 1) * sizeof(*more));
	if (c->topic_count > 0)
		memcpy(more, c->topics, c->topic_count * sizeof(*more));
	more[c->topic_count++] = (struct spec_topic){ t->name, t->id };
	c->topics = more;
}

/* A topic may be given as its name alone. */
static LUA_JUMPS void add_topic(lua_State *L, struct spec_cluster *c)
{
	if (lua_type(L, -1) == LUA_TSTRING) {
		lua_newtable(L);
		lua_pushvalue(L, -2);
		lua_setfield(L, -2, "name");
	}
	luaL_checktype(L, -1, LUA_TTABLE);
	static const char *const beyond[] = { "labels", NULL };
	copy_table(L);
	split_fields(L, beyond);
	struct topic t;
	struct topic_extra extra;
	read_record(L, c, lua_gettop(L) - 1, &topic_type, &t);
	read_record(L, c, lua_gettop(L), &topic_extra_type, &extra);
	if (t.name.len == 0)
		luaL_error(L, "a topic has no name");
	if (t.partitions == 0)
		t.partitions = TOPIC_PARTITIONS_MIN;
	if (t.id.len == 0)
		t.id = (struct str){ arena_printf(&c->arena, "%016zx", c->entry_count + 1), 16 };
	if (t.created_at == 0)
		t.created_at = (int64_t)c->view.now_s;
	remember_id(c, &t);
	spec_add_command(L, c, CMD_TOPIC_CREATE, &t);
	if (extra.labels.count)
		spec_add_command(
		    L, c, CMD_TOPIC_LABELS,
		    &(struct cmd_topic_labels){ .topic = t.name, .expect_id = t.id, .labels = extra.labels });
}

static LUA_JUMPS void add_assignment(lua_State *L, struct spec_cluster *c)
{
	luaL_checktype(L, -1, LUA_TTABLE);
	static const char *const beyond[] = { "pinned", NULL };
	struct assignment a;
	copy_table(L);
	split_fields(L, beyond);
	const bool pinned = field_flag(L, lua_gettop(L), "pinned", false);
	read_record(L, c, lua_gettop(L) - 1, &assignment_type, &a);
	const struct str target = a.target_id;
	a.target_id = STR_LIT("");
	spec_add_command(L, c, CMD_PARTITION_ASSIGN, &a);
	if (target.len)
		spec_add_command(
		    L, c, CMD_MOVE_TARGET,
		    &(struct cmd_move_target){ .topic = a.topic, .partition = a.partition, .target = target });
	if (pinned)
		spec_add_command(L, c, CMD_PARTITION_PIN,
		                 &(struct cmd_partition_pin){ a.topic, a.partition, find_id(L, c, a.topic), true });
}

static LUA_JUMPS void add_server(lua_State *L, struct spec_cluster *c)
{
	static const char *const names[] = { "id", "voter", "leader", "alive", NULL };
	luaL_checktype(L, -1, LUA_TTABLE);
	const int at = lua_gettop(L);
	spec_check_fields(L, at, "a server", names);
	if (c->view.server_count == SPEC_SERVERS_MAX)
		luaL_error(L, "a cluster has at most %d servers", SPEC_SERVERS_MAX);
	c->servers[c->view.server_count++] = (struct view_server){
		.id = field_text(L, c, at, "id", ""),
		.voter = field_flag(L, at, "voter", true),
		.leader = field_flag(L, at, "leader", false),
		.alive = field_flag(L, at, "alive", true),
	};
}

/* Calls `add` with each element of the list in field `name` of the table at 1 on top of the stack. */
static LUA_JUMPS void each(lua_State *L, struct spec_cluster *c, const char *name,
                           void (*add)(lua_State *L, struct spec_cluster *c))
{
	if (lua_getfield(L, 1, name) != LUA_TNIL) {
		luaL_checktype(L, -1, LUA_TTABLE);
		const int list = lua_gettop(L);
		for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
			add(L, c);
			lua_settop(L, list);
		}
		if (lua_next(L, list)) { /* the nil that ended the loop is the first key */
			if (!lua_isinteger(L, -2))
				luaL_error(L, "'%s' is a list", name);
		}
		lua_settop(L, list);
	}
	lua_pop(L, 1);
}

static struct view_setting *find_setting(struct spec_cluster *c, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(c->settings); i++) {
		if (strcmp(name, c->settings[i].name) == 0)
			return &c->settings[i];
	}
	return NULL;
}

static LUA_JUMPS void read_settings(lua_State *L, struct spec_cluster *c)
{
	memcpy(c->settings, spec_default_settings, sizeof(spec_default_settings));
	c->view.settings = c->settings;
	c->view.setting_count = SPEC_SETTINGS;
	if (lua_getfield(L, 1, "settings") != LUA_TNIL) {
		luaL_checktype(L, -1, LUA_TTABLE);
		for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
			const char *key = luaL_checkstring(L, -2);
			struct view_setting *setting = find_setting(c, key);
			const lua_Integer value = luaL_checkinteger(L, -1);
			if (setting)
				setting->value = value;
			else
				luaL_error(L, "no setting '%s'", key);
		}
	}
	lua_pop(L, 1);
}

/* ---- building the state ---- */

void spec_open_store(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, raft_index applied)
{
	const char *dir = getenv("TMPDIR");
	c->path = mem_strdup(arena_printf(&c->arena, "%s/veena-spec-XXXXXX", dir && *dir ? dir : "/tmp"));
	const int fd = mkstemp(c->path);
	if (fd < 0)
		luaL_error(L, "no temporary file at %s", c->path);
	struct err e;
	const int rc = from ? store_copy(fsm_store(from->fsm), fd, &e) : 0;
	close(fd);
	if (rc != 0)
		luaL_error(L, "%s", e.msg);
	const struct fsm_options o = {
		.store = { .scratch = c->path, .map_bytes = 1u << 30 },
		.start_index = applied,
		.changes_bytes = 1u << 20,
	};
	if (fsm_open(&o, &c->fsm, &e) != 0)
		luaL_error(L, "%s", e.msg);
	unlink(c->path);
	mem_free(c->path);
	c->path = NULL;
	fsm_reader_init(&c->reader, c->fsm);
}

void spec_apply_entries(lua_State *L, struct spec_cluster *c, raft_index index)
{
	for (size_t i = 0; i < c->entry_count; i++) {
		struct slab *s = entry_at(c, i);
		entry_stamp_time(s, (uint64_t)(c->view.now_s * 1000));
		const struct entry entry = {
			.index = index - c->entry_count + i + 1,
			.term = 1,
			.kind = ENTRY_COMMAND,
			.len = (uint32_t)s->len,
			.data = s->data,
			.slab = s,
		};
		struct fsm_result result = { 0 };
		struct err e;
		if (fsm_apply(c->fsm, &entry, 1, &result, &e) != 0)
			luaL_error(L, "%s", e.msg);
		if (result.refusal)
			luaL_error(L, "record %d of the cluster was refused: %s", (int)i + 1,
			           fsm_refusal_word(result.refusal));
	}
}

void spec_open_view(lua_State *L, struct spec_cluster *c)
{
	struct store_txn *txn;
	struct err e;
	if (fsm_read(&c->reader, &txn, &e) != 0 || fsm_reader_members(&c->reader, &c->view.members, &e) != 0)
		luaL_error(L, "%s", e.msg);
	c->view.txn = txn;
	c->view.index = fsm_reader_index(&c->reader);
	c->view.servers = c->servers;
	c->view.scratch = &c->scratch;
	c->view.log = &c->log;
}

void spec_push_view(lua_State *L, struct spec_cluster *c, int box)
{
	box = lua_absindex(L, box);
	cluster_view_push(L, &c->view);
	lua_pushvalue(L, box);
	lua_setiuservalue(L, -2, 1);
}

struct spec_cluster *spec_check_cluster(lua_State *L, int arg)
{
	if (!cluster_view_at(L, arg) || lua_getiuservalue(L, arg, 1) != LUA_TUSERDATA)
		luaL_error(L, "argument %d is a cluster made by veena.cluster{...}", arg);
	struct spec_cluster **box = luaL_checkudata(L, -1, CLUSTER_TYPE);
	lua_pop(L, 1); /* the view at `arg` keeps it alive */
	return *box;
}

static LUA_JUMPS int spec_cluster_new(lua_State *L)
{
	static const char *const fields[] = { "now",     "index",  "leader",      "leader_for_s", "term", "servers",
		                              "members", "topics", "assignments", "settings",     NULL };
	if (lua_isnoneornil(L, 1)) {
		lua_settop(L, 0);
		lua_newtable(L);
	}
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	spec_check_fields(L, 1, "a cluster", fields);
	struct spec_cluster *c = spec_push_cluster(L); /* 2: freed by the collector, whatever is raised from here on */
	lua_getfield(L, 1, "now");
	c->view.now_s = luaL_optnumber(L, -1, NOW_DEFAULT);
	lua_getfield(L, 1, "index");
	const lua_Integer index = luaL_optinteger(L, -1, INDEX_DEFAULT);
	lua_getfield(L, 1, "leader_for_s");
	c->view.leader_for_s = luaL_optnumber(L, -1, 3600);
	lua_getfield(L, 1, "term");
	c->view.term = (raft_term)luaL_optinteger(L, -1, 1);
	lua_settop(L, 2);
	c->view.leader = field_text(L, c, 1, "leader", "n1");
	read_settings(L, c);
	each(L, c, "servers", add_server);
	each(L, c, "members", add_member);
	each(L, c, "topics", add_topic);
	each(L, c, "assignments", add_assignment);
	if (index <= (lua_Integer)c->entry_count)
		luaL_error(L, "index %I is too low for %d records", index, (int)c->entry_count);
	spec_open_store(L, c, NULL, (raft_index)index - c->entry_count);
	spec_apply_entries(L, c, (raft_index)index);
	spec_drop_entries(c);
	spec_open_view(L, c);
	spec_push_view(L, c, 2);
	return 1;
}

/* A JSON text as policies get it: null is veena.null, and a list stays one when it is empty. */
static LUA_JUMPS int spec_json(lua_State *L)
{
	struct str text;
	text.p = luaL_checklstring(L, 1, &text.len);
	lua_push_json(L, text);
	return 1;
}

int luaopen_veena_spec(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "cluster", spec_cluster_new }, { "policy", spec_policy_new }, { "try", spec_try },
		{ "settle", spec_settle },       { "json", spec_json },         { NULL, NULL },
	};
	spec_add_methods(L);
	luaL_newlib(L, functions);
	sandbox_push_null(L);
	lua_setfield(L, -2, "null");
	return 1;
}
