/* The lane in which a client waits: owners for the partitions of a create or an increase; schemas are judge.c's.
 *
 * Questions are answered in order of arrival, each on the newest state. While the cluster forms (some voters have a
 * member row, others none) they wait up to two seconds for the rest, counted from when forming was first seen, so a
 * voter that never registers costs one wait and not one per create. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/control_internal.h"
#include "control/place.h"
#include "fsm/fsm.h"
#include "fsm/topics.h"

#define FORMING_WAIT_MS 2000
#define RETRY_MS 50

void requests_init(struct requests *r, struct control *c, const char *policy_dir)
{
	lane_init(&r->lane, c, policy_dir);
	r->queue = queue_new(REQUESTS_MAX, sizeof(struct svc_placement *), &r->lane.wake);
	judge_init(r);
}

/* ---- answering ---- */

static void answer(struct svc_placement *p, enum svc_place_result result)
{
	p->result = result;
	const struct node_completion done = { .slot = p->reply.slot, .generation = p->reply.generation };
	const bool put = queue_put(p->reply.queue, &done);
	assert(put); /* completion queues have a slot for each request that may be outstanding */
	svc_placement_unref(p);
}

/* What the answer is before any policy is asked: Narad tells "nobody is there" from "everybody is leaving". */
static enum svc_place_result receivers(const struct fsm_members *m)
{
	bool alive = false;
	for (size_t i = 0; i < m->count; i++) {
		if (!m->rows[i].alive || !m->rows[i].placeable)
			continue;
		if (!m->rows[i].draining)
			return SVC_PLACE_DONE;
		alive = true;
	}
	return alive ? SVC_PLACE_ALL_DRAINING : SVC_PLACE_NO_MEMBER;
}

static void place(struct requests *r, struct svc_placement *p, uint64_t now_ms)
{
	struct cluster_view *v = &r->lane.lv.view;
	const enum svc_place_result who = receivers(v->members);
	if (who != SVC_PLACE_DONE) {
		answer(p, who);
		return;
	}
	struct plans *plans = &r->lane.control->plans;
	plans_begin(plans, &r->lane, now_ms);
	const struct place_question q = {
		.topic_json = p->topic_json,
		.partitions = p->partitions,
		.count = p->partition_count,
		.replicas = p->replicas,
		.avoid = p->avoid,
		.avoid_count = p->avoid_count,
	};
	struct place_answer a;
	struct sandbox_fault fault;
	const int rc = place_ask(r->lane.policies, &sandbox_budget_request, v, &q, &p->arena, &a, &fault);
	plans_end(plans, &r->lane, p->topic, p->partition_count, rc == 0 ? &a : NULL, now_ms);
	if (rc != 0) {
		snprintf(p->reason, sizeof(p->reason), "%.255s", fault.message);
		answer(p, SVC_PLACE_FAILED);
		return;
	}
	report_intents(r->lane.control, POLICY_PLACEMENT, SVC_INTENT_REFUSED, a.refused);
	p->owners = a.owners;
	snprintf(p->reason, sizeof(p->reason), "%.255s", a.reason);
	answer(p, SVC_PLACE_DONE);
}

/* How long the questions in hand must wait for the cluster to form; 0: not. */
static uint64_t forming_until(struct requests *r, uint64_t now_ms)
{
	if (!lane_is_forming(&r->lane)) {
		r->forming_since_ms = 0;
		return 0;
	}
	if (!r->forming_since_ms)
		r->forming_since_ms = now_ms;
	const uint64_t until = r->forming_since_ms + FORMING_WAIT_MS;
	return now_ms < until ? until : 0;
}

static void take_queued(struct requests *r)
{
	while (r->waiting_count < REQUESTS_MAX && queue_take(r->queue, &r->waiting[r->waiting_count]))
		r->waiting_count++;
}

static void answer_all(struct requests *r, enum svc_place_result result)
{
	for (size_t i = 0; i < r->waiting_count; i++)
		answer(r->waiting[i], result);
	r->waiting_count = 0;
}

static uint64_t placements_turn(struct requests *r, uint64_t now_ms)
{
	take_queued(r);
	if (r->waiting_count == 0)
		return UINT64_MAX;
	if (atomic_load(&r->lane.control->leading) == 0) {
		/* The entries would be refused anyway; the service knows what that means. */
		answer_all(r, SVC_PLACE_FAILED);
		return UINT64_MAX;
	}
	lane_watch_applied(&r->lane);
	if (!lane_open_view(&r->lane, now_ms))
		return now_ms + RETRY_MS;
	const uint64_t until = forming_until(r, now_ms);
	if (until == 0) {
		for (size_t i = 0; i < r->waiting_count; i++)
			place(r, r->waiting[i], now_ms);
		r->waiting_count = 0;
	}
	lane_close_view(&r->lane);
	return until ? until : UINT64_MAX;
}

uint64_t requests_turn(struct requests *r, uint64_t now_ms)
{
	policy_set_refresh(r->lane.policies, now_ms);
	const uint64_t next_ms = placements_turn(r, now_ms);
	/* One at a time, so that a create behind many documents does not wait for all of them. */
	return judge_turn(r) ? now_ms : next_ms;
}

bool requests_place(void *arg, struct svc_placement *p)
{
	struct requests *r = arg;
	return atomic_load(&r->lane.control->leading) != 0 && queue_put(r->queue, &p);
}

void requests_fini(struct requests *r)
{
	take_queued(r);
	for (size_t i = 0; i < r->waiting_count; i++)
		svc_placement_unref(r->waiting[i]); /* the asking threads have ended */
	queue_free(r->queue);
	judge_fini(r);
	lane_fini(&r->lane);
}
