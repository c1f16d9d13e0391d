/* New leaders for partitions whose leader is gone: dead, silent for too long, draining, or nobody since then.
 *
 * The policy chooses among the copies; what it says is held to what may be: a member that lives and has a copy in sync,
 * or any living copy of a topic that is `unclean`. A dead leader without such a copy leads no more: the partition waits
 * for one of those that were in sync. The changes of one look go in few entries, so a member that led a thousand
 * partitions costs as many syncs as one that led a few; an entry that is refused is planned anew. */
#include <lauxlib.h>
#include <string.h>

#include "base/log.h"
#include "control/control_internal.h"
#include "control/lua_value.h"
#include "fsm/assignments.h"
#include "fsm/members.h"
#include "fsm/topics.h"
#include "model/commands.h"

#define BATCH_MAX 256 /* partitions asked about in one run */
#define PER_ENTRY 64  /* leader changes in one entry */

struct election {
	struct fsm_topic topic;
	struct str name, topic_id, owner; /* in the lane's arena, as the texts of the set */
	uint32_t partition;
	struct fsm_replicas set;
	bool owner_dead;   /* by its record */
	bool owner_serves; /* it lives and was heard: nothing may be given up in its place */
	bool unclean;      /* the topic allows it */
	struct str leader; /* the policy's word; "" = it waits */
	struct str reason;
};

struct election_run {
	struct cluster_view *view; /* first: policy_view_begin */
	struct arena *arena;
	struct election *items;
	size_t count;
};

/* ---- asking ---- */

static LUA_JUMPS int run_elect(lua_State *L)
{
	const struct election_run *run = lua_touserdata(L, 1);
	policy_push_function(L, "elect");
	const int fn = lua_gettop(L);
	cluster_view_push(L, run->view);
	for (size_t i = 0; i < run->count; i++) {
		struct election *e = &run->items[i];
		lua_pushvalue(L, fn);
		lua_pushvalue(L, fn + 1);
		cluster_view_push_assignment(L, run->view, e->name, e->partition);
		lua_call(L, 2, 2);
		if (lua_type(L, -2) != LUA_TSTRING && lua_type(L, -2) != LUA_TNIL)
			luaL_error(L, "elect: returns a %s, a member id or nil is expected", luaL_typename(L, -2));
		e->leader = lua_copy_text(L, -2, run->arena, SIZE_MAX);
		e->reason = lua_copy_text(L, -1, run->arena, PLAN_REASON_MAX);
		lua_settop(L, fn + 1);
	}
	return 0;
}

/* ---- which partitions ---- */

static double failover_after_s(const struct passes *p)
{
	return (double)control_setting(p->lane.control, "failover_after_s");
}

/* It was heard a moment ago. */
static bool is_heard(const struct passes *p, struct str id)
{
	return cluster_view_watched_silence(&p->lane.lv.view, id) < failover_after_s(p);
}

/* Loads a replicated partition that `member` leads, or ("") nobody does. False: it is none of them. */
static bool load(struct passes *p, const struct fsm_place *at, struct election *out)
{
	struct lane_view *lv = &p->lane.lv;
	struct topic_extra extra;
	struct fsm_owner o;
	*out = (struct election){ .name = arena_str(&lv->arena, at->topic), .partition = at->partition };
	if (fsm_get_topic(lv->view.txn, out->name, &out->topic) != 0 || !out->topic.replicated ||
	    out->partition >= out->topic.partition_count ||
	    fsm_get_replicas(lv->view.txn, out->name, out->partition, &out->set) != 0 || out->set.count == 0 ||
	    fsm_get_topic_extra(lv->view.txn, out->name, &lv->arena, &extra) != 0)
		return false;
	fsm_topic_owner(&out->topic, out->partition, &o);
	out->owner = o.owner;
	out->topic_id = fsm_topic_id(out->topic.record);
	out->unclean = extra.unclean;
	const struct fsm_member *m = fsm_members_find(lv->view.members, o.owner);
	out->owner_dead = o.owner.len > 0 && (!m || !m->alive);
	out->owner_serves = m && m->alive && is_heard(p, m->id);
	return true;
}

/* Whose partitions the policy is asked about: the others' leaders do their work. */
static bool is_gone(const struct passes *p, const struct fsm_member *m)
{
	return !m->alive || m->draining || !is_heard(p, m->id);
}

/* ---- what is made of the answer ---- */

static bool may_lead(const struct passes *p, const struct election *e, struct str id)
{
	const struct fsm_replica *r = fsm_replicas_find(&e->set, id);
	const struct fsm_member *m = fsm_members_find(p->lane.lv.view.members, id);
	return r && m && m->alive && !str_eq(id, e->owner) && (r->in_sync || (e->unclean && !e->owner_serves));
}

static bool somebody_may(const struct passes *p, const struct election *e)
{
	for (size_t i = 0; i < e->set.count; i++)
		if (may_lead(p, e, e->set.items[i].id))
			return true;
	return false;
}

/* False: nothing changes. */
static bool decide(struct passes *p, const struct election *e, struct cmd_leader_change *out)
{
	const struct fsm_replica *r = fsm_replicas_find(&e->set, e->leader);
	*out = (struct cmd_leader_change){
		.topic = e->name,
		.expect_id = e->topic_id,
		.partition = e->partition,
		.expect_epoch = e->set.epoch,
		.leader = e->leader,
		.unclean = r && !r->in_sync,
		.reason = e->reason,
	};
	if (e->leader.len == 0) {
		out->reason = STR_LIT("the leader is dead and no living copy is in sync");
		return e->owner_dead && !somebody_may(p, e);
	}
	if (may_lead(p, e, e->leader))
		return true;
	report_intents(p->lane.control, POLICY_FAILOVER, SVC_INTENT_REFUSED, 1);
	return false;
}

/* False: as many proposals as may be are under way. */
static bool propose(struct passes *p, struct election *items, size_t count)
{
	struct entry_builder b;
	size_t in_entry = 0;
	bool room = true;
	entry_builder_init(&b);
	for (size_t i = 0; i < count && room; i++) {
		struct cmd_leader_change c;
		if (decide(p, &items[i], &c)) {
			entry_builder_add(&b, CMD_LEADER_CHANGE, &c);
			in_entry++;
		}
		if (in_entry == 0 || (in_entry < PER_ENTRY && i + 1 < count))
			continue;
		room = p->outstanding < PASS_PROPOSALS_MAX && pass_propose(p, POLICY_FAILOVER, &b, in_entry);
		if (room)
			log_info("failover.leaders", "partitions=%zu", in_entry);
		entry_builder_fini(&b);
		entry_builder_init(&b);
		in_entry = 0;
	}
	entry_builder_fini(&b);
	return room;
}

/* ---- the turn ---- */

/* False: the policy failed, or no more can be proposed now. */
static bool ask(struct passes *p, struct election *items, size_t count)
{
	struct lane_view *lv = &p->lane.lv;
	struct sandbox_fault fault;
	struct election_run run = { .view = &lv->view, .arena = &lv->arena, .items = items, .count = count };
	const struct policy_call call = {
		.kind = POLICY_FAILOVER,
		.budget = &sandbox_budget_pass,
		.run = run_elect,
		.before = policy_view_begin,
		.after = policy_view_end,
		.arg = &run,
	};
	if (count == 0)
		return true;
	return !pass_held_back(p, CMD_LEADER_CHANGE, false) && policy_run(p->lane.policies, &call, &fault) == 0 &&
	       propose(p, items, count);
}

/* All partitions of the walk, batch by batch: those that wait for long must not stand in the way of the others. */
static bool walk(struct passes *p, struct fsm_place_iter *it, bool leads, struct election *items)
{
	struct fsm_place at;
	size_t n = 0;
	bool go_on = true;
	while (go_on && fsm_place_next(it, &at) == 0) {
		if (leads && !(at.roles & FSM_ROLE_OWNER))
			continue;
		n += load(p, &at, &items[n]);
		if (n < BATCH_MAX)
			continue;
		go_on = ask(p, items, n);
		n = 0;
	}
	fsm_place_close(it);
	return go_on && ask(p, items, n);
}

void failover_turn(struct passes *p)
{
	const struct cluster_view *v = &p->lane.lv.view;
	struct election *items = arena_alloc(&p->lane.lv.arena, BATCH_MAX * sizeof(*items));
	struct fsm_place_iter it = { 0 };
	bool go_on = true;
	p->failover_wanted = false;
	if (fsm_leaderless_open(&it, v->txn) == 0)
		go_on = walk(p, &it, false, items);
	for (size_t i = 0; i < v->members->count && go_on; i++) {
		struct fsm_member_extra x;
		const struct fsm_member *m = &v->members->rows[i];
		if (!is_gone(p, m) || fsm_get_member_extra(v->txn, m->id, &x) != 0 || x.counts.leads == 0)
			continue;
		it = (struct fsm_place_iter){ 0 };
		if (fsm_held_open(&it, v->txn, m->id, NULL) == 0)
			go_on = walk(p, &it, true, items);
	}
}
