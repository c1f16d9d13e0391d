/* control/place.h - asks the placement policy for owners and lets nothing unsafe through.
 *
 * Thread: that of the caller's policy set and view.
 */
#ifndef CONTROL_PLACE_H
#define CONTROL_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "control/policy.h"
#include "control/view.h"
#include "model/field.h"

#define PLACE_REASON_MAX 256 /* bytes */

struct place_question {
	struct str topic_json;      /* the topic as a GET shows it, stored or to be stored */
	const uint32_t *partitions; /* without an owner, ascending */
	size_t count;
	uint32_t replicas;       /* copies that each shall have; 1 = an owner alone */
	const struct str *avoid; /* members refused a moment ago */
	size_t avoid_count;
};

struct place_answer {
	struct str_list *owners; /* one per partition: its owner, or the leader and then the other copies; none
	                          * = waits. In the caller's arena */
	size_t placed;           /* how many partitions have one */
	size_t refused;          /* owners the policy named and the core does not allow */
	char reason[PLACE_REASON_MAX + 1]; /* the policy's, or why the core refused one */
};

/* May a partition be placed on this member? NULL when it may, else why not. */
struct place_refusal {
	const char *code; /* stable word */
	const char *text; /* goes behind the member's id */
};
const struct place_refusal *place_refusal(const struct fsm_members *members, struct str id);

/* Is there a member that may be given partitions and that `seen` does not hold? `seen` becomes those of `m`. */
bool place_receivers_grew(struct buf *seen, const struct fsm_members *m);

/* `view` has no sandbox yet; results live in `a`. ERR_INVALID when no policy in force answered. */
MUST_CHECK int place_ask(struct policy_set *ps, const struct sandbox_budget *budget, struct cluster_view *view,
                         const struct place_question *q, struct arena *a, struct place_answer *out,
                         struct sandbox_fault *fault);

#endif /* CONTROL_PLACE_H */
