/* Owners for partitions that have none, and the end of rows that belong to no partition.
 *
 * A sweep asks the placement policy topic by topic and proposes one entry a topic of insert-only placements: a
 * partition that got an owner meanwhile refuses the entry, and the next sweep sees it. */
#include "base/log.h"
#include "control/control_internal.h"
#include "fsm/assignments.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"

/* ---- one topic ---- */

static size_t unplaced_partitions(const struct fsm_topic *t, uint32_t *out)
{
	size_t n = 0;
	for (uint32_t i = 0; i < t->partition_count; i++) {
		struct fsm_owner o;
		fsm_topic_owner(t, i, &o);
		if (o.owner.len == 0 && !o.leaderless)
			out[n++] = i;
	}
	return n;
}

/* One entry with a placement per partition that got an owner. */
static bool propose(struct passes *p, const struct topic *t, const struct place_question *q,
                    const struct place_answer *a)
{
	const bool copies = q->replicas > 1;
	if (copies && pass_held_back(p, CMD_REPLICAS_PLACE, false))
		return true;
	const bool older = !copies && pass_held_back(p, CMD_PARTITION_PLACE, true);
	const unsigned type = copies ? CMD_REPLICAS_PLACE : older ? CMD_PARTITION_ASSIGN : CMD_PARTITION_PLACE;
	struct entry_builder b;
	entry_builder_init(&b);
	for (size_t i = 0; i < q->count; i++) {
		if (a->owners[i].count > 0)
			svc_place_add(&b, type, t, q->partitions[i], &a->owners[i]);
	}
	log_debug("sweep.place", "topic=" STR_FMT " partitions=%zu reason=\"%s\"", STR_ARG(t->name), a->placed,
	          a->reason);
	return pass_propose(p, POLICY_PLACEMENT, &b, a->placed);
}

/* False: nothing more can be done in this sweep. */
static bool sweep_topic(struct passes *p, const struct fsm_topic *t, uint64_t now_ms)
{
	struct lane_view *lv = &p->lane.lv;
	struct plans *plans = &p->lane.control->plans;
	struct topic record;
	struct err e;
	if (record_read_json(&topic_type, t->record, &lv->arena, &record, NULL, &e) != 0) {
		log_error("sweep.record", "topic=" STR_FMT " error=\"%s\"", STR_ARG(t->name), e.msg);
		return true;
	}
	struct topic_extra extra;
	int rc = fsm_get_topic_extra(lv->view.txn, t->name, &lv->arena, &extra);
	if (rc != 0) {
		log_error("sweep.record", "topic=" STR_FMT " error=\"%s\"", STR_ARG(t->name), err_text(rc));
		return true;
	}
	uint32_t *partitions = arena_alloc(&lv->arena, (t->partition_count + 1) * sizeof(*partitions));
	const struct place_question q = {
		.replicas = (uint32_t)extra.replicas,
		.topic_json = fsm_topic_json(t, &lv->arena),
		.partitions = partitions,
		.count = unplaced_partitions(t, partitions),
	};
	struct place_answer a;
	struct sandbox_fault fault;
	plans_begin(plans, &p->lane, now_ms);
	/* Under a request's budget, since creates wait for the lock. */
	rc = place_ask(p->lane.policies, &sandbox_budget_request, &lv->view, &q, &lv->arena, &a, &fault);
	plans_end(plans, &p->lane, t->name, q.count, rc == 0 ? &a : NULL, now_ms);
	if (rc != 0)
		return false;
	report_intents(p->lane.control, POLICY_PLACEMENT, SVC_INTENT_REFUSED, a.refused);
	return a.placed == 0 || propose(p, &record, &q, &a);
}

static bool somebody_can_receive(const struct fsm_members *m)
{
	for (size_t i = 0; i < m->count; i++) {
		if (!place_refusal(m, m->rows[i].id))
			return true;
	}
	return false;
}

/* Goes on from `resume` until the proposals in hand are as many as may be outstanding; the turn after their completion
 * goes on. */
void sweep_turn(struct passes *p, uint64_t now_ms)
{
	struct lane_view *lv = &p->lane.lv;
	if (!somebody_can_receive(lv->view.members)) {
		p->sweep_wanted = false;
		return;
	}
	while (p->outstanding < PASS_PROPOSALS_MAX) {
		struct str name;
		struct fsm_topic t;
		const struct str after = { (const char *)p->resume.data, p->resume.len };
		if (fsm_next_unplaced(lv->view.txn, after, &name) != 0 || fsm_get_topic(lv->view.txn, name, &t) != 0) {
			p->sweep_wanted = false;
			return;
		}
		buf_clear(&p->resume);
		buf_put(&p->resume, name.p, name.len);
		if (!sweep_topic(p, &t, now_ms)) {
			p->sweep_wanted = false;
			return;
		}
	}
}

/* ---- orphans ---- */

/* Rows of topics that are gone, or past a topic's partitions: the state machine looks again before it lets one go. */
void prune_turn(struct passes *p)
{
	struct fsm_place_iter it = { 0 };
	struct fsm_place at;
	size_t pruned = 0;
	p->prune_wanted = false;
	int rc = fsm_orphans_open(&it, p->lane.lv.view.txn, NULL);
	if (rc == 0)
		rc = fsm_place_next(&it, &at);
	if (rc == 0 && pass_held_back(p, CMD_PARTITION_PRUNE, false))
		rc = ERR_NOTFOUND;
	while (rc == 0 && p->outstanding < PASS_PROPOSALS_MAX) {
		const struct cmd_partition_prune c = { .topic = at.topic, .partition = at.partition };
		struct entry_builder b;
		entry_builder_init(&b);
		entry_builder_add(&b, CMD_PARTITION_PRUNE, &c);
		if (!pass_propose_as(p, "control:prune", PASS_PRUNE, &b, 1))
			break;
		pruned++;
		rc = fsm_place_next(&it, &at);
	}
	fsm_place_close(&it);
	p->prune_wanted = rc == 0; /* there are more */
	if (pruned > 0)
		log_info("prune.orphans", "rows=%zu more=%s", pruned, p->prune_wanted ? "yes" : "no");
}
