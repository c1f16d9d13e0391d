#include "control/place.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "control/lua_value.h"
#include "fsm/assignments.h"
#include "fsm/fsm.h"

struct place_run {
	struct cluster_view *view; /* first: policy_view_begin */
	const struct place_question *q;
	struct arena *arena;
	struct place_answer *out;
};

const struct place_refusal *place_refusal(const struct fsm_members *members, struct str id)
{
	static const struct place_refusal unknown = { "member_not_found", "is not a member" };
	static const struct place_refusal dead = { "target_not_alive", "is not alive" };
	static const struct place_refusal draining = { "target_draining", "is draining" };
	static const struct place_refusal cordoned = { "target_not_placeable", "is not placeable" };
	switch (fsm_members_receiver(members, id)) {
	case 0: return NULL;
	case FSM_MEMBER_NOT_FOUND: return &unknown;
	case FSM_TARGET_NOT_ALIVE: return &dead;
	case FSM_TARGET_DRAINING: return &draining;
	default: return &cordoned;
	}
}

/* Ids in byte order, a NUL behind each. */
bool place_receivers_grew(struct buf *seen, const struct fsm_members *m)
{
	struct buf now = { 0 };
	const char *old = buf_cstr(seen);
	const char *end = old + seen->len;
	bool grew = false;
	for (size_t i = 0; i < m->count; i++) {
		const struct str id = m->rows[i].id;
		if (place_refusal(m, id))
			continue;
		while (old < end && str_cmp(str_of(old), id) < 0)
			old += strlen(old) + 1;
		grew = grew || old == end || !str_is(id, old);
		buf_put(&now, id.p, id.len);
		buf_putc(&now, '\0');
	}
	buf_fini(seen);
	*seen = now;
	return grew;
}

static LUA_JUMPS void push_partitions(lua_State *L, const struct place_question *q)
{
	lua_createtable(L, (int)q->count, 0);
	for (size_t i = 0; i < q->count; i++) {
		lua_pushinteger(L, q->partitions[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	sandbox_mark_array(L, -1);
}

static bool was_asked(const struct place_question *q, lua_Integer p)
{
	for (size_t i = 0; i < q->count; i++) {
		if ((lua_Integer)q->partitions[i] == p)
			return true;
	}
	return false;
}

/* Every key must be a partition that was asked for: a table indexed from 1 by mistake is told so, not half obeyed. */
static LUA_JUMPS void check_keys(lua_State *L, int index, const struct place_question *q)
{
	for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
		if (!lua_isinteger(L, -2) || !was_asked(q, lua_tointeger(L, -2))) {
			lua_pushvalue(L, -2);
			luaL_error(L, "place: the answer has a key %s, which is not a partition it was asked for",
			           luaL_tolstring(L, -1, NULL));
		}
	}
}

static LUA_JUMPS void read_reason(lua_State *L, int index, struct place_answer *out)
{
	if (lua_type(L, index) == LUA_TTABLE && lua_rawgeti(L, index, 0) != LUA_TSTRING)
		return;
	const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
	if (text)
		snprintf(out->reason, sizeof(out->reason), "%s", text);
}

static LUA_JUMPS struct str read_id(lua_State *L, int index, const struct place_run *run, uint32_t partition)
{
	if (lua_type(L, index) != LUA_TSTRING)
		luaL_error(L, "place: partition %d is given a %s, a member id is expected", (int)partition,
		           luaL_typename(L, index));
	return lua_copy_text(L, index, run->arena, SIZE_MAX);
}

/* A member id, or a list of them, the leader first. */
static LUA_JUMPS struct str_list read_copies(lua_State *L, int index, const struct place_run *run, uint32_t partition)
{
	const bool is_list = lua_istable(L, index);
	const size_t n = is_list ? lua_rawlen(L, index) : 1;
	if (n == 0 || n > FSM_REPLICAS_MAX)
		luaL_error(L, "place: partition %d is given %d members, 1 to %d are expected", (int)partition, (int)n,
		           FSM_REPLICAS_MAX);
	struct str *ids = arena_alloc(run->arena, n * sizeof(*ids));
	for (size_t i = 0; i < n; i++) {
		if (is_list)
			lua_rawgeti(L, index, (lua_Integer)i + 1);
		else
			lua_pushvalue(L, index);
		ids[i] = read_id(L, -1, run, partition);
		lua_pop(L, 1);
	}
	return (struct str_list){ ids, n };
}

static LUA_JUMPS void read_owners(lua_State *L, int index, const struct place_run *run)
{
	for (size_t i = 0; i < run->q->count; i++) {
		const uint32_t partition = run->q->partitions[i];
		if (lua_rawgeti(L, index, partition) != LUA_TNIL)
			run->out->owners[i] = read_copies(L, lua_gettop(L), run, partition);
		lua_pop(L, 1);
	}
}

static LUA_JUMPS int run_place(lua_State *L)
{
	const struct place_run *run = lua_touserdata(L, 1);
	policy_push_function(L, "place");
	cluster_view_push(L, run->view);
	lua_push_json(L, run->q->topic_json);
	push_partitions(L, run->q);
	lua_call(L, 3, 2);
	const int owners = lua_gettop(L) - 1;
	if (!lua_istable(L, owners))
		return luaL_error(L, "place: returns a %s, a table of partition = member id is expected",
		                  luaL_typename(L, owners));
	check_keys(L, owners, run->q);
	read_owners(L, owners, run);
	read_reason(L, owners + 1, run->out);
	return 0;
}

static void begin_try(void *arg, struct sandbox *sb)
{
	const struct place_run *run = arg;
	policy_view_begin(arg, sb);
	for (size_t i = 0; i < run->q->count; i++)
		run->out->owners[i] = (struct str_list){ 0 };
	run->out->reason[0] = '\0';
}

static const struct place_refusal *refusal_of(const struct place_run *run, const struct str *ids, size_t at)
{
	static const struct place_refusal again = { "refused_before", "was refused a moment ago" };
	static const struct place_refusal twice = { "already_owner", "is named twice" };
	static const struct place_refusal more = { "not_replicated", "is one copy more than the topic has" };
	const struct place_refusal *why = place_refusal(run->view->members, ids[at]);
	if (!why && str_is_among(ids[at], run->q->avoid, run->q->avoid_count))
		why = &again;
	if (!why && str_is_among(ids[at], ids, at))
		why = &twice;
	return why || at < run->q->replicas ? why : &more;
}

/* Copies that may not be where the policy wants them are left out, to be added later; without its leader the whole
 * partition waits. */
static void drop_unsafe_copies(const struct place_run *run, uint32_t partition, struct str_list *l)
{
	struct place_answer *out = run->out;
	struct str *kept = arena_alloc(run->arena, l->count * sizeof(*kept));
	size_t n = 0;
	bool leads = true;
	for (size_t i = 0; i < l->count; i++) {
		const struct place_refusal *why = refusal_of(run, l->items, i);
		if (!why && leads) {
			kept[n++] = l->items[i];
			continue;
		}
		if (!why)
			continue;
		leads = leads && i > 0;
		out->refused++;
		snprintf(out->reason, sizeof(out->reason), "partition %u: %.64s %s", partition, l->items[i].p,
		         why->text);
	}
	*l = (struct str_list){ kept, leads ? n : 0 };
}

/* What policies.md promises whatever a policy returns: targets are alive, placeable and not draining. */
static void drop_unsafe(const struct place_run *run)
{
	struct place_answer *out = run->out;
	for (size_t i = 0; i < run->q->count; i++) {
		if (out->owners[i].count > 0)
			drop_unsafe_copies(run, run->q->partitions[i], &out->owners[i]);
		out->placed += out->owners[i].count > 0;
	}
}

int place_ask(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view,
              const struct place_question *q, struct arena *a, struct place_answer *out, struct sandbox_fault *fault)
{
	*out = (struct place_answer){ .owners = arena_zalloc(a, (q->count ? q->count : 1) * sizeof(struct str_list)) };
	struct place_run run = { .view = view, .q = q, .arena = a, .out = out };
	const struct policy_call call = {
		.kind = POLICY_PLACEMENT,
		.budget = budget,
		.run = run_place,
		.before = begin_try,
		.after = policy_view_end,
		.arg = &run,
	};
	const int rc = policy_run(ps, &call, fault);
	if (rc == 0)
		drop_unsafe(&run);
	return rc;
}
