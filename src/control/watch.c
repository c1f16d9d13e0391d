/* Who is dead.
 *
 * A member is asked about only when this leader itself, in this term, has heard nothing of it for dead_after_s by its
 * own monotonic clock: wall clocks, and stamps from before its time, kill nobody. If this lane did not run for a while
 * it did not watch either, and the members get that time. The mark names the heartbeat it was judged from; a newer one
 * that is applied first wins. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/control_internal.h"
#include "fsm/members.h"
#include "model/commands.h"
#include "model/entry.h"

#define STALL_MS 3000 /* longer between two looks is time in which nobody watched */

void watch_forget(struct passes *p)
{
	mem_free(p->heard);
	p->heard = NULL;
	p->heard_count = 0;
	p->looked_ms = 0;
	p->dead_refused = false;
	p->drain_said[0] = '\0';
	atomic_store(&p->lane.control->dead_refused, false);
}

static struct heard *find(const struct passes *p, struct str id)
{
	size_t lo = 0, hi = p->heard_count;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		const int order = str_cmp(str_of(p->heard[mid].id), id);
		if (order == 0)
			return &p->heard[mid];
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

void watch_show(struct passes *p, uint64_t now_ms)
{
	struct cluster_view *v = &p->lane.lv.view;
	struct view_silence *all = arena_alloc(&p->lane.lv.arena, (p->heard_count + 1) * sizeof(*all));
	for (size_t i = 0; i < p->heard_count; i++)
		all[i] =
		    (struct view_silence){ str_of(p->heard[i].id), (double)(now_ms - p->heard[i].since_ms) / 1000.0 };
	v->silences = all;
	v->silence_count = p->heard_count;
}

static bool read_heartbeat(struct passes *p, struct str id, int64_t *out)
{
	struct lane_view *lv = &p->lane.lv;
	struct str record;
	struct member m;
	if (fsm_get_member_record(lv->view.txn, id, &record) != 0 ||
	    record_read_json(&member_type, record, &lv->arena, &m, NULL, NULL) != 0)
		return false;
	*out = m.last_heartbeat;
	return true;
}

/* Reads every member's newest heartbeat. One whose stamp moved, or that is new here, was heard now. */
static void look(struct passes *p, uint64_t now_ms)
{
	const struct fsm_members *m = p->lane.lv.view.members;
	const uint64_t missed = p->looked_ms && now_ms - p->looked_ms > STALL_MS ? now_ms - p->looked_ms : 0;
	struct heard *now = mem_zalloc((m->count + 1) * sizeof(*now));
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct str id = m->rows[i].id;
		struct heard *h = &now[n];
		if (id.len > RAFT_NAME_MAX || !read_heartbeat(p, id, &h->heartbeat))
			continue;
		n++;
		memcpy(h->id, id.p, id.len);
		h->since_ms = now_ms;
		const struct heard *before = find(p, id);
		if (before && before->heartbeat == h->heartbeat)
			h->since_ms = before->since_ms + missed < now_ms ? before->since_ms + missed : now_ms;
	}
	mem_free(p->heard);
	p->heard = now;
	p->heard_count = n;
	p->looked_ms = now_ms;
}

/* Alive by their record, and silent for long enough to be judged. The leader hears itself. */
static size_t candidates(struct passes *p, uint64_t now_ms, struct verdict **out)
{
	const struct fsm_members *m = p->lane.lv.view.members;
	const uint64_t limit_ms = (uint64_t)control_setting(p->lane.control, "dead_after_s") * 1000;
	*out = arena_zalloc(&p->lane.lv.arena, (m->count + 1) * sizeof(**out));
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct heard *h = find(p, m->rows[i].id);
		if (m->rows[i].alive && h && now_ms - h->since_ms >= limit_ms &&
		    !str_eq(m->rows[i].id, p->lane.lv.view.leader))
			(*out)[n++].member = m->rows[i].id;
	}
	return n;
}

static void keep_quorum(struct passes *p, struct verdict *all, size_t count)
{
	const size_t taken_back = verdict_keep_quorum(&p->lane.lv.view, all, count);
	report_intents(p->lane.control, POLICY_LIVENESS, SVC_INTENT_REFUSED, taken_back);
	const bool refused = taken_back > 0;
	if (refused && !p->dead_refused)
		log_error(
		    "dead.refused",
		    "voters=%zu code=no_healthy_majority; too few voters would be left alive, so none is marked dead: "
		    "look whether their heartbeats reach this leader",
		    taken_back);
	else if (!refused && p->dead_refused)
		log_info("dead.refused_no_more", "term=%llu", (unsigned long long)p->term);
	p->dead_refused = refused;
	atomic_store(&p->lane.control->dead_refused, refused);
}

static bool mark_dead(struct passes *p, const struct verdict *v)
{
	struct entry_builder b;
	entry_builder_init(&b);
	if (pass_held_back(p, CMD_MEMBER_DEAD_IF, true)) {
		const struct cmd_name c = { v->member };
		entry_builder_add(&b, CMD_MEMBER_DEAD, &c);
	} else {
		const struct cmd_member_dead_if c = { v->member, find(p, v->member)->heartbeat };
		entry_builder_add(&b, CMD_MEMBER_DEAD_IF, &c);
	}
	log_warn("member.dead", "member=" STR_FMT " reason=\"" STR_FMT "\"", STR_ARG(v->member), STR_ARG(v->reason));
	return pass_propose(p, POLICY_LIVENESS, &b, 1);
}

void liveness_turn(struct passes *p, uint64_t now_ms)
{
	struct lane_view *lv = &p->lane.lv;
	struct verdict *all;
	struct sandbox_fault fault;
	look(p, now_ms);
	watch_show(p, now_ms);
	const size_t n = candidates(p, now_ms, &all);
	if (n > 0 && verdict_ask(p->lane.policies, POLICY_LIVENESS, &sandbox_budget_pass, &lv->view, &lv->arena, all, n,
	                         &fault) != 0)
		return; /* nobody is dead for a policy that failed */
	keep_quorum(p, all, n);
	for (size_t i = 0; i < n && p->outstanding < PASS_PROPOSALS_MAX; i++) {
		if (all[i].yes && !mark_dead(p, &all[i]))
			return;
	}
}
