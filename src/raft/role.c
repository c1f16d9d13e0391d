/* Moving between roles (figure 3.3), and what a node knows of its leader.
 *
 *                 timeout                   majority of pre-votes            majority of votes
 *   FOLLOWER -----------------> PRECANDIDATE ------------------> CANDIDATE ---------------------> LEADER
 *      ^  |                         |    ^                         |  |                             |
 *      |  +--- timeout-now ---------|----|------------------------>+  |                             |
 *      |                            |    +------- timeout ------------+                             |
 *      +----------------------------+------------ leader or higher term ----------------------------+
 *
 * Only role_follow raises the term other than by a candidacy of this node's own.
 */
#include "raft/raft_internal.h"

void role_set(struct raft *r, enum raft_role role)
{
	if (r->role == role)
		return;
	r->role = role;
	out_trace(r, RAFT_TRACE_ROLE, 0, role, r->term);
}

void role_set_leader(struct raft *r, node_id leader)
{
	if (r->leader == leader)
		return;
	r->leader = leader;
	r->election.lost = false;
	r->election.early = false;
	read_fail_all(r, ERR_NOT_LEADER);
	out_trace(r, RAFT_TRACE_LEADER, leader, 0, r->term);
}

void role_follow(struct raft *r, raft_term term, node_id leader, enum raft_reason why)
{
	assert(term >= r->term && leader != r->p.self);
	if (r->role == RAFT_LEADER) {
		out_trace(r, RAFT_TRACE_STEP_DOWN, 0, why, 0);
		lead_end(r);
		election_reset_timer(r);
	}
	if (term > r->term) {
		disk_set_hard_state(r, term, 0);
		read_fail_all(r, ERR_NOT_LEADER);
		follow_reset(r);
	} else if (r->leader != leader) {
		follow_reset(r);
	}
	role_set(r, RAFT_FOLLOWER);
	role_set_leader(r, leader);
}

void role_lead(struct raft *r)
{
	assert(r->role == RAFT_CANDIDATE && r->vote == r->p.self && disk_has_hard_state(r));
	role_set(r, RAFT_LEADER);
	role_set_leader(r, r->p.self);
	follow_reset(r);
	lead_begin(r);
}
