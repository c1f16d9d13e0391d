/* The lane of passes: when they run, and what becomes of what they propose.
 *
 *   prune -> sweep -> liveness -> rebalance -> drain
 *
 * All run when this node takes office and every 10 s, pruning every minute; heartbeats are looked at every second. In
 * between, each 250 ms, two version counters say whether something moved: assignments or members that changed ask for a
 * rebalance and a look at drains, and a member that becomes one that may be given partitions (alive, not draining,
 * placeable) asks for a sweep: once every voter is alive, or one second after the latest arrival, so that members that
 * start together share what there is.
 *
 * A pass proposes compare-and-set entries under the term it runs in, and the next begins when they are applied or
 * refused: so each plans on what the last one did. Nothing is proposed under an older term than the one at append, and
 * what a lost term left is not ours. */
#include "control/control_internal.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "fsm/changes.h"
#include "fsm/fsm.h"
#include "fsm/topics.h"
#include "model/entry.h"

#define TICK_MS 10000
#define PRUNE_MS 60000
#define LOOK_MS 1000        /* at heartbeats */
#define WATCH_MS 250        /* how often membership is looked at: one atomic load */
#define SETTLE_MS 1000      /* after the latest arrival */
#define SWEEP_AGAIN_MS 1000 /* a change sweeps no sooner after the last sweep */
#define STATE_RETRY_MS 20   /* while the term's first entry is not applied */

#define SLOT_COUNT_BITS 24

void passes_init(struct passes *p, struct control *c, const char *policy_dir)
{
	lane_init(&p->lane, c, policy_dir);
	p->completions = queue_new(4 * PASS_PROPOSALS_MAX, sizeof(struct node_completion), &p->lane.wake);
}

void passes_fini(struct passes *p)
{
	queue_free(p->completions);
	buf_fini(&p->resume);
	buf_fini(&p->receivers);
	watch_forget(p);
	lane_fini(&p->lane);
}

/* ---- proposing ---- */

struct node_reply_to pass_reply(struct passes *p, unsigned slot_kind)
{
	return (struct node_reply_to){
		.queue = p->completions,
		.slot = slot_kind << SLOT_COUNT_BITS,
		.generation = p->generation,
	};
}

bool pass_propose_as(struct passes *p, const char *actor, unsigned slot_kind, struct entry_builder *b, size_t intents)
{
	const struct entry_header h = { .actor = str_of(actor), .origin = p->lane.lv.view.leader };
	struct node_proposal proposal = { .term = p->term, .max_type = b->max_type };
	struct err e;
	assert(intents < (1u << SLOT_COUNT_BITS));
	const int rc = entry_builder_finish(b, &h, &proposal.entry, &e);
	entry_builder_fini(b);
	if (rc != 0) {
		log_error("pass.entry", "actor=%s error=\"%s\"", actor, e.msg);
		return false;
	}
	proposal.reply = pass_reply(p, slot_kind);
	proposal.reply.slot |= (uint32_t)intents;
	if (!node_propose(p->lane.control->node, &proposal))
		return false;
	p->outstanding++;
	return true;
}

bool pass_propose(struct passes *p, enum policy_kind kind, struct entry_builder *b, size_t intents)
{
	static const char *const actors[POLICY_KIND_COUNT] = {
		[POLICY_PLACEMENT] = "policy:placement", [POLICY_REBALANCE] = "policy:rebalance",
		[POLICY_LIVENESS] = "policy:liveness",   [POLICY_DRAIN] = "policy:drain",
		[POLICY_FAILOVER] = "policy:failover",
	};
	return pass_propose_as(p, actors[kind], kind, b, intents);
}

bool pass_held_back(struct passes *p, unsigned type, bool falls_back)
{
	const struct node_blocker *by = node_held_back_by(&p->lane.lv.status, type);
	if (by)
		node_note_held_back(p->lane.control->node, type, by, falls_back);
	return by != NULL;
}

/* ---- what became of it ---- */

static void note_intents(struct passes *p, unsigned kind, const struct node_completion *done)
{
	const size_t intents = done->slot & ((1u << SLOT_COUNT_BITS) - 1);
	if (kind < POLICY_KIND_COUNT)
		report_intents(p->lane.control, (enum policy_kind)kind,
		               done->code == 0  ? SVC_INTENT_APPLIED
		               : done->code > 0 ? SVC_INTENT_REFUSED
		                                : SVC_INTENT_DROPPED,
		               intents);
	if (done->code != 0)
		log_debug("pass.refused", "kind=%u reason=%s command=%llu", kind,
		          done->code > 0 ? fsm_refusal_word(done->code) : err_name(done->code),
		          (unsigned long long)done->detail);
}

static void take_completions(struct passes *p)
{
	struct node_completion done;
	while (queue_take(p->completions, &done)) {
		const unsigned kind = done.slot >> SLOT_COUNT_BITS;
		if (done.generation != p->generation)
			continue;
		p->outstanding--;
		/* A server that left the configuration, or leadership that moved: the drain goes on from there. */
		if (kind == PASS_CHANGE || kind == PASS_TRANSFER)
			p->drain_wanted = done.code == 0;
		else
			note_intents(p, kind, &done);
	}
}

/* ---- when ---- */

static void want_sweep(struct passes *p)
{
	p->sweep_wanted = true;
	buf_clear(&p->resume);
}

static bool has_unplaced(const struct passes *p)
{
	struct str name;
	return fsm_next_unplaced(p->lane.lv.view.txn, (struct str){ "", 0 }, &name) == 0;
}

/* Membership moved: an arrival (it came alive, or may be given partitions again) starts (or starts again) the wait for
 * the others. */
static void watch_members(struct passes *p, uint64_t now_ms)
{
	const struct fsm_members *m = p->lane.lv.view.members;
	if (m->version != p->members_seen) {
		if (place_receivers_grew(&p->receivers, m))
			p->settle_until_ms = now_ms + SETTLE_MS;
		else
			p->plan_wanted = true;
		p->drain_wanted = p->failover_wanted = true;
		p->members_seen = m->version;
	}
	if (p->settle_until_ms && (now_ms >= p->settle_until_ms || lane_voters_alive(&p->lane))) {
		p->settle_until_ms = 0;
		p->plan_wanted = true;
		want_sweep(p);
	}
}

static void watch_assignments(struct passes *p, uint64_t now_ms)
{
	const raft_index version = fsm_domain_version(node_fsm(p->lane.control->node), FSM_DOMAIN_ASSIGNMENTS);
	if (version == p->assignments_seen)
		return;
	p->assignments_seen = version;
	p->plan_wanted = p->drain_wanted = true;
	if (now_ms >= p->next_sweep_ms && has_unplaced(p))
		want_sweep(p);
}

static void watch_clock(struct passes *p, uint64_t now_ms)
{
	if (now_ms >= p->next_prune_ms) {
		p->next_prune_ms = now_ms + PRUNE_MS;
		p->prune_wanted = true;
	}
	if (now_ms >= p->next_tick_ms) {
		p->next_tick_ms = now_ms + TICK_MS;
		p->plan_wanted = p->drain_wanted = true;
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
	p->assignments_seen = UINT64_MAX;
	buf_clear(&p->receivers);
	p->settle_until_ms = 0;
	p->next_tick_ms = p->next_look_ms = p->next_prune_ms = p->next_sweep_ms = now_ms;
	p->prune_wanted = p->sweep_wanted = p->plan_wanted = p->drain_wanted = p->failover_wanted = false;
	memset(p->blocked_said, 0, sizeof(p->blocked_said));
	atomic_store(&p->lane.control->moves_source_dead, 0);
	atomic_store(&p->lane.control->moves_target_dead, 0);
	watch_forget(p);
}

/* Each waits for what those before it proposed. */
static void run_passes(struct passes *p, uint64_t now_ms)
{
	watch_show(p, now_ms);
	if (p->prune_wanted && p->outstanding == 0)
		prune_turn(p);
	if (p->sweep_wanted && p->outstanding == 0)
		sweep_turn(p, now_ms);
	if (now_ms >= p->next_look_ms && p->outstanding == 0) {
		p->next_look_ms = now_ms + LOOK_MS;
		liveness_turn(p, now_ms);
		moves_look(p);
		p->failover_wanted = true;
	}
	if (p->failover_wanted && p->outstanding == 0)
		failover_turn(p);
	if (p->plan_wanted && p->outstanding == 0)
		rebalance_turn(p);
	if (p->drain_wanted && p->outstanding == 0)
		drain_turn(p);
	if (!p->sweep_wanted && p->next_sweep_ms < now_ms)
		p->next_sweep_ms = now_ms + SWEEP_AGAIN_MS;
}

static uint64_t next_deadline(const struct passes *p, uint64_t now_ms)
{
	uint64_t next = now_ms + WATCH_MS;
	if (p->settle_until_ms && p->settle_until_ms < next)
		next = p->settle_until_ms;
	if (p->next_look_ms < next)
		next = p->next_look_ms;
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
	watch_assignments(p, now_ms);
	watch_clock(p, now_ms);
	run_passes(p, now_ms);
	lane_close_view(&p->lane);
	return next_deadline(p, now_ms);
}
