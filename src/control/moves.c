/* The rebalance: the policy plans, the core judges, and each intent that is left becomes one compare-and-set entry.
 *
 * The entries go out in the plan's order, since a move that is taken back makes room for another. */
#include "base/log.h"
#include "control/control_internal.h"
#include "fsm/assignments.h"
#include "fsm/members.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"

static bool propose(struct passes *p, const struct plan_intent *in)
{
	struct entry_builder b;
	entry_builder_init(&b);
	if (in->abort) {
		const struct cmd_move_abort_if c = { in->topic, in->partition, in->topic_id, in->move_id };
		entry_builder_add(&b, CMD_MOVE_ABORT_IF, &c);
	} else {
		const struct cmd_move_set_if c = {
			.topic = in->topic,
			.partition = in->partition,
			.expect_id = in->topic_id,
			.expected_owner = in->owner,
			.target = in->to,
			.max_moves = control_setting(p->lane.control, "max_moves"),
		};
		entry_builder_add(&b, CMD_MOVE_SET_IF, &c);
	}
	log_info(in->abort ? "move.taken_back" : "move.planned",
	         "topic=" STR_FMT " partition=%lld from=" STR_FMT " to=" STR_FMT " reason=\"" STR_FMT "\"",
	         STR_ARG(in->topic), (long long)in->partition, STR_ARG(in->owner),
	         STR_ARG(in->abort ? in->target : in->to), STR_ARG(in->reason));
	return pass_propose(p, POLICY_REBALANCE, &b, 1);
}

static void note_refused(struct passes *p, const struct plan_intent *in, size_t *shown)
{
	report_intents(p->lane.control, POLICY_REBALANCE, SVC_INTENT_REFUSED, 1);
	if ((*shown)++ < 8)
		log_info("move.refused", "topic=" STR_FMT " partition=%lld to=" STR_FMT " code=%s", STR_ARG(in->topic),
		         (long long)in->partition, STR_ARG(in->to), in->refused);
}

/* ---- moves that stand still ---- */

static bool is_dead(const struct passes *p, struct str id)
{
	const struct fsm_member *m = fsm_members_find(p->lane.lv.view.members, id);
	return !m || !m->alive;
}

static void say_blocked(struct passes *p, const struct fsm_place *at, const struct fsm_owner *o, const char *reason)
{
	for (size_t i = 0; i < BLOCKED_SAID_MAX; i++) {
		if (p->blocked_said[i] == o->move_id)
			return;
	}
	p->blocked_said[p->blocked_next++ % BLOCKED_SAID_MAX] = o->move_id;
	log_error("move.blocked",
	          "topic=" STR_FMT " partition=%u from=" STR_FMT " to=" STR_FMT
	          " reason=%s; GET /v1/cluster/moves?detail names the way out",
	          STR_ARG(at->topic), at->partition, STR_ARG(o->owner), STR_ARG(o->target), reason);
}

void moves_look(struct passes *p)
{
	struct store_txn *txn = p->lane.lv.view.txn;
	struct fsm_place_iter it = { 0 };
	struct fsm_place at;
	uint32_t source = 0, target = 0;
	int rc = fsm_moves_open(&it, txn, NULL);
	while (rc == 0 && (rc = fsm_place_next(&it, &at)) == 0) {
		struct fsm_topic t;
		struct fsm_owner o;
		if (fsm_get_topic(txn, at.topic, &t) != 0 || at.partition >= t.partition_count)
			continue; /* an orphan's */
		fsm_topic_owner(&t, at.partition, &o);
		const bool to_dead = is_dead(p, o.target), from_dead = !to_dead && is_dead(p, o.owner);
		target += to_dead;
		source += from_dead;
		if (to_dead || from_dead)
			say_blocked(p, &at, &o, to_dead ? "target_dead" : "source_dead");
	}
	fsm_place_close(&it);
	atomic_store(&p->lane.control->moves_source_dead, source);
	atomic_store(&p->lane.control->moves_target_dead, target);
}

/* ---- the pass ---- */

void rebalance_turn(struct passes *p)
{
	struct lane_view *lv = &p->lane.lv;
	struct policy_set *ps = p->lane.policies;
	struct plan_answer plan;
	struct sandbox_fault fault;
	size_t shown = 0;
	p->plan_wanted = false;
	if (control_setting(p->lane.control, "max_moves") <= 0 || pass_held_back(p, CMD_MOVE_ABORT_IF, false))
		return;
	const int rc = plan_ask(ps, &sandbox_budget_pass, &lv->view, &lv->arena, &plan, &fault);
	if (rc != 0) {
		if (rc != ERR_INVALID)
			log_error("rebalance.state", "code=%s", err_name(rc));
		return;
	}
	plan_ask_allowed(ps, &sandbox_budget_pass, &lv->view, &lv->arena, &plan);
	for (size_t i = 0; i < plan.count; i++) {
		if (plan.items[i].refused)
			note_refused(p, &plan.items[i], &shown);
		else if (p->outstanding == PASS_PROPOSALS_MAX || !propose(p, &plan.items[i]))
			break; /* the rest is planned anew once these are applied */
	}
}
