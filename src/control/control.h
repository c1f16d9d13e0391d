/* control/control.h - the leader's control plane: two lanes that run policies and propose what they decide.
 *
 * requests: a client waits (placement of a create or a partition increase, a schema that shall be judged). passes: the
 * sweep over partitions that have no owner, when members come, when topics are left unplaced, and every 10 s. Each lane
 * has its own reader, policies and Lua states, so a long pass delays no create. Lanes act only while this node leads,
 * after its term's first entry is applied here, and every proposal carries the term it was decided in: nothing of an
 * old term takes effect. A lane's turn never blocks but for Lua, under a budget. The thread loops stand in
 * src/threads.c.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wake.h"
#include "node/node.h"
#include "service/hooks.h"

enum control_lane { CONTROL_REQUESTS, CONTROL_PASSES, CONTROL_LANE_COUNT };

struct control;

struct control_options {
	struct node *node;
	const char *policy_dir; /* NULL: only what is shipped; borrowed for the call */
	uint32_t max_moves;     /* what cluster:setting() says until settings are replicated */
	uint32_t dead_after_s;
	uint32_t member_heartbeat_ms;
	uint32_t min_voters;
};

/* Before the threads start: registers the placer, the judge and what it says of itself (service/hooks.h), a watcher of
 * the applied index for each lane, and the node's notice of leadership. */
struct control *control_new(const struct control_options *o);
void control_free(struct control *c); /* after the lanes' and the http threads; accepts NULL */

/* One turn of a lane; returns the next deadline (monotonic ms, UINT64_MAX: none). */
uint64_t control_turn(struct control *c, enum control_lane lane, uint64_t now_ms);
struct wake *control_wake(struct control *c, enum control_lane lane);

#endif /* CONTROL_CONTROL_H */
