/* The lane of passes: the sweep that places what has no owner.
 *
 * It runs when this node takes office, every 10 s, and when a member becomes one that may be given partitions (alive,
 * not draining, placeable): then once every voter is alive, or
 * one second after the latest arrival, so that members that start together share what there is. A sweep asks the
 * placement policy topic by topic and proposes one entry a topic of insert-only placements: a partition that got an
 * owner meanwhile refuses the entry, and the next sweep sees it. Nothing is proposed under an older term than the one
 * at append. */
#include "base/log.h"
#include "base/mem.h"
#include "control/control_internal.h"
#include "control/place.h"
#include "fsm/fsm.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"

#define TICK_MS 10000
#define WATCH_MS 250      /* how often membership is looked at: one atomic load */
#define SETTLE_MS 1000    /* after the latest arrival */
#define STATE_RETRY_MS 20 /* while the term's first entry is not applied */

void passes_init(struct passes *p, struct control *c, const char *policy_dir)
{
	lane_init(&p->lane, c, policy_dir);
	p->completions = queue_new(2 * PASS_PROPOSALS_MAX, sizeof(struct node_completion), &p->lane.wake);
}

void passes_fini(struct passes *p)
{
	queue_free(p->completions);
	buf_fini(&p->resume);
	buf_fini(&p->receivers);
	lane_fini(&p->lane);
}

/* ---- what became of proposals ---- */

static void take_completions(struct passes *p)
{
	struct node_completion done;
	while (queue_take(p->completions, &done)) {
		if (done.generation != p->generation)
			continue;
		p->outstanding--;
		report_intents(p->lane.control, POLICY_PLACEMENT,
		               done.code == 0  ? SVC_INTENT_APPLIED
		               : done.code > 0 ? SVC_INTENT_REFUSED
		                               : SVC_INTENT_DROPPED,
		               done.slot);
		if (done.code != 0) {
			log_debug("sweep.refused", "reason=%s command=%llu",
			          done.code > 0 ? fsm_refusal_word(done.code) : err_name(done.code),
			          (unsigned long long)done.detail);
		}
	}
}

/* ---- one topic ---- */

static size_t unplaced_partitions(const struct fsm_topic *t, uint32_t *out)
{
	size_t n = 0;
	for (uint32_t i = 0; i < t->partition_count; i++) {
		struct fsm_owner o;
		fsm_topic_owner(t, i, &o);
		if (o.owner.len == 0)
			out[n++] = i;
	}
	return n;
}

/* One entry with a placement per partition that got an owner. */
static bool propose(struct passes *p, const struct topic *t, const struct place_question *q,
                    const struct place_answer *a)
{
	struct entry_builder b;
	entry_builder_init(&b);
	for (size_t i = 0; i < q->count; i++) {
		if (a->owners[i].len == 0)
			continue;
		const struct cmd_partition_place c = {
			.topic = t->name,
			.partition = q->partitions[i],
			.owner_id = a->owners[i],
			.expect_id = t->id,
		};
		entry_builder_add(&b, CMD_PARTITION_PLACE, &c);
	}
	const struct entry_header h = { .actor = STR_LIT("policy:placement"), .origin = p->lane.lv.view.leader };
	struct slab *entry = NULL;
	struct err e;
	const int rc = entry_builder_finish(&b, &h, &entry, &e);
	entry_builder_fini(&b);
	if (rc != 0) {
		log_error("sweep.entry", "topic=" STR_FMT " error=\"%s\"", STR_ARG(t->name), e.msg);
		return true;
	}
	const struct node_proposal proposal = {
		.entry = entry,
		.reply = { .queue = p->completions, .slot = (uint32_t)a->placed, .generation = p->generation },
		.term = p->term,
		.max_type = CMD_PARTITION_PLACE,
	};
	if (!node_propose(p->lane.control->node, &proposal))
		return false;
	p->outstanding++;
	log_debug("sweep.place", "topic=" STR_FMT " partitions=%zu reason=\"%s\"", STR_ARG(t->name), a->placed,
	          a->reason);
	return true;
}

/* False: nothing more can be done in this sweep. */
static bool sweep_topic(struct passes *p, const struct fsm_topic *t)
{
	struct lane_view *lv = &p->lane.lv;
	struct topic record;
	struct err e;
	if (record_read_json(&topic_type, t->record, &lv->arena, &record, NULL, &e) != 0) {
		log_error("sweep.record", "topic=" STR_FMT " error=\"%s\"", STR_ARG(t->name), e.msg);
		return true;
	}
	uint32_t *partitions = arena_alloc(&lv->arena, (t->partition_count + 1) * sizeof(*partitions));
	const struct place_question q = {
		.topic_json = fsm_topic_json(t, &lv->arena),
		.partitions = partitions,
		.count = unplaced_partitions(t, partitions),
	};
	struct place_answer a;
	struct sandbox_fault fault;
	if (place_ask(p->lane.policies, &sandbox_budget_pass, &lv->view, &q, &lv->arena, &a, &fault) != 0)
		return false;
	report_intents(p->lane.control, POLICY_PLACEMENT, SVC_INTENT_REFUSED, a.refused);
	return a.placed == 0 || propose(p, &record, &q, &a);
}

/* ---- the sweep ---- */

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
static void sweep(struct passes *p)
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
		if (!sweep_topic(p, &t)) {
			p->sweep_wanted = false;
			return;
		}
	}
}

static void want_sweep(struct passes *p)
{
	p->sweep_wanted = true;
	buf_clear(&p->resume);
}

/* ---- when ---- */

/* Membership moved: an arrival (it came alive, or may be given partitions again) starts (or starts again) the wait for
 * the others. */
static void watch_members(struct passes *p, uint64_t now_ms)
{
	const struct fsm_members *m = p->lane.lv.view.members;
	if (m->version != p->members_seen) {
		if (place_receivers_grew(&p->receivers, m))
			p->settle_until_ms = now_ms + SETTLE_MS;
		p->members_seen = m->version;
	}
	if (p->settle_until_ms && (now_ms >= p->settle_until_ms || lane_voters_alive(&p->lane))) {
		p->settle_until_ms = 0;
		want_sweep(p);
	}
}

/* A new term begins: what the last one left is not ours. */
static void take_office(struct passes *p, raft_term term, uint64_t now_ms)
{
	p->term = term;
	p->generation++;
	p->outstanding = 0;
	p->members_seen = UINT64_MAX; /* no version is */
	buf_clear(&p->receivers);
	p->settle_until_ms = 0;
	p->next_tick_ms = now_ms;
}

static uint64_t next_deadline(const struct passes *p, uint64_t now_ms)
{
	uint64_t next = now_ms + WATCH_MS;
	if (p->settle_until_ms && p->settle_until_ms < next)
		next = p->settle_until_ms;
	return p->next_tick_ms < next ? p->next_tick_ms : next;
}

uint64_t passes_turn(struct passes *p, uint64_t now_ms)
{
	const raft_term term = atomic_load(&p->lane.control->leading);
	take_completions(p);
	if (term != p->term)
		take_office(p, term, now_ms);
	if (term == 0)
		return UINT64_MAX;
	policy_set_refresh(p->lane.policies, now_ms);
	if (!lane_open_view(&p->lane, now_ms))
		return now_ms + STATE_RETRY_MS;
	watch_members(p, now_ms);
	if (now_ms >= p->next_tick_ms) {
		p->next_tick_ms = now_ms + TICK_MS;
		want_sweep(p);
	}
	if (p->sweep_wanted && p->outstanding == 0)
		sweep(p);
	lane_close_view(&p->lane);
	return next_deadline(p, now_ms);
}
