/* control/plan.h - asks the rebalance policy what shall move, and lets nothing unsafe through.
 *
 * What the core promises whatever a policy returns (policies/README.md) is judged here, in the state the plan was made
 * on; the state machine judges the same again when the entry is applied.
 * Thread: that of the caller's policy set and view.
 */
#ifndef CONTROL_PLAN_H
#define CONTROL_PLAN_H

#include "base/arena.h"
#include "control/policy.h"
#include "control/view.h"

#define PLAN_INTENTS_MAX 10000 /* a longer list is a fault */
#define PLAN_REASON_MAX 256    /* bytes */

struct plan_intent {
	struct str topic;
	int64_t partition;
	bool abort;
	struct str to, from, leader; /* "" = not given; `from` and `leader` are for topics with copies */
	struct str reason;           /* the policy's; "" = none */
	/* filled by plan_judge */
	const char *refused; /* stable word; NULL: to be proposed */
	struct str topic_id, owner, target;
	raft_index move_id;
};

/* Everything in the arena. */
struct plan_answer {
	struct plan_intent *items;
	size_t count;
	struct str reason;
};

/* Reads the list at `list` and the reason behind it. Raises on what is no plan. */
LUA_JUMPS void plan_read(lua_State *L, int list, struct arena *a, struct plan_answer *out);
/* Fills `refused` and what the entries compare with. ERR_* of the store. */
MUST_CHECK int plan_judge(const struct cluster_view *v, struct arena *a, struct plan_answer *plan);

/* Asks and judges. ERR_INVALID when no policy in force answered, else ERR_* of the store. `view` has no sandbox yet. */
MUST_CHECK int plan_ask(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view,
                        struct arena *a, struct plan_answer *out, struct sandbox_fault *fault);
/* Refuses moves that `allowed` of the placement policy forbids. A fault there refuses them too. */
void plan_ask_allowed(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view,
                      struct arena *a, struct plan_answer *plan);

/* ---- one word about one member: judge and finished ---- */

struct verdict {
	struct str member;
	bool yes;          /* dead; may be removed */
	struct str reason; /* the policy's; "" = none */
};
/* What the policy said: judge "dead" or nothing, finished true or false; anything else raises. */
LUA_JUMPS bool verdict_read(lua_State *L, int index, enum policy_kind kind);
/* Asks about each of them in one run, in order. ERR_INVALID as above. */
MUST_CHECK int verdict_ask(struct policy_set *ps, enum policy_kind kind, const struct sandbox_budget *budget,
                           struct cluster_view *view, struct arena *a, struct verdict *v, size_t count,
                           struct sandbox_fault *fault);

/* Which of the dead verdicts would leave fewer living voters than a quorum? Those of voters are taken back; says how
 * many. The leader itself lives. */
size_t verdict_keep_quorum(const struct cluster_view *v, struct verdict *all, size_t count);

#endif /* CONTROL_PLAN_H */
