/* §5.2 elections, §9.6 pre-vote, §6.4 (and §4.2.3) leader stickiness, early pre-vote.
 *
 * A node that misses its leader first asks whether it would be elected (PREVOTE: nobody's term or vote changes, least
 * of all its own, so a vote of this term stays given), and only with a majority's yes becomes a candidate. Whoever
 * hears a leader refuses both questions, unless the leader itself handed over. Ids the configuration does not know are
 * refused without a change of term, so a server that was removed and never learned it disturbs nobody. Answers are
 * given whether or not this node is a voter by its own configuration: the asker's may be newer, and the asker counts.
 *
 * A vote leaves once it is durable (out_post_durable); a candidate asks once its own is, and counts it then.
 */
#include "raft/raft_internal.h"

void election_reset_timer(struct raft *r)
{
	r->election.due_ms = r->now_ms + r->p.election_ms + rand_below(&r->dice, (uint64_t)r->p.election_ms + 1);
}

void election_heard_leader(struct raft *r)
{
	struct election *el = &r->election;
	r->follow.contact_ms = r->now_ms;
	election_reset_timer(r);
	/* What a dead leader had sent may still come out of the other link in the very turn that saw this one break. */
	if (el->lost && r->now_ms > el->lost_ms) {
		el->lost = false;
		el->early = false;
	}
}

bool election_may_campaign(const struct raft *r)
{
	/* D 4.2.2: also one that is no voter by a configuration not yet committed. It may be the only one that has that
	 * entry, and then nobody with a shorter log can be elected, and it votes for nobody. */
	return conf_ever_has(r, r->p.self, true) && !r->disk.failed && !disk_is_slow(r) && !snapshot_is_switching(r);
}

static void clear_grants(struct raft *r)
{
	for (size_t i = 0; i < r->peer_count; i++)
		r->peers[i]->granted = false;
	r->election.stray = 0;
}

static void ask_voters(struct raft *r, enum raft_msg_type type, raft_term term, bool handed_over)
{
	for (size_t i = 0; i < r->peer_count; i++) {
		if (!r->peers[i]->voter)
			continue;
		const struct raft_msg m = { .type = type,
			                    .to = r->peers[i]->id,
			                    .term = term,
			                    .index = r->log.last,
			                    .log_term = rlog_last_term(&r->log),
			                    .flag = handed_over };
		if (type == RAFT_MSG_PREVOTE)
			out_post(r, &m);
		else
			out_post_durable(r, &m);
	}
}

static void ask_before(struct raft *r)
{
	assert(r->role != RAFT_LEADER && election_may_campaign(r));
	r->election.early = false;
	election_reset_timer(r);
	clear_grants(r);
	role_set(r, RAFT_PRECANDIDATE);
	role_set_leader(r, 0);
	ask_voters(r, RAFT_MSG_PREVOTE, r->term + 1, false);
	election_count(r);
}

void election_campaign(struct raft *r, bool handed_over)
{
	assert(r->role != RAFT_LEADER && election_may_campaign(r));
	r->election.early = false;
	election_reset_timer(r);
	clear_grants(r);
	disk_set_hard_state(r, r->term + 1, r->p.self);
	follow_reset(r);
	role_set(r, RAFT_CANDIDATE);
	role_set_leader(r, 0);
	ask_voters(r, RAFT_MSG_VOTE, r->term, handed_over);
}

void election_count(struct raft *r)
{
	/* The disk may have become slow since the question was asked. */
	if (r->role == RAFT_PRECANDIDATE && quorum_granted(r, true) && election_may_campaign(r))
		election_campaign(r, false);
	else if (r->role == RAFT_CANDIDATE && disk_has_hard_state(r) && quorum_granted(r, true))
		role_lead(r);
}

void election_tick(struct raft *r)
{
	struct election *el = &r->election;
	const bool early = el->early && r->now_ms >= el->early_ms;
	if (!early && r->now_ms < el->due_ms)
		return;
	if (election_may_campaign(r)) {
		ask_before(r);
		return;
	}
	/* No leader is heard, and it is not for this node to become one. */
	el->early = false;
	election_reset_timer(r);
	role_follow(r, r->term, 0, RAFT_REASON_TERM);
}

void election_peer_lost(struct raft *r, node_id peer, bool refused)
{
	struct election *el = &r->election;
	if (r->role != RAFT_FOLLOWER || peer == 0 || peer != r->leader)
		return;
	el->lost = true;
	el->lost_ms = r->now_ms;
	if (refused && election_may_campaign(r)) {
		el->early = true;
		el->early_ms = r->now_ms + rand_below(&r->dice, RAFT_EARLY_MS_MAX + 1);
	}
}

/* Does this node have a leader it would not give up for a candidate? */
static bool is_sticky(const struct raft *r)
{
	if (r->role == RAFT_LEADER)
		return true;
	return r->leader != 0 && !r->election.lost && r->now_ms - r->follow.contact_ms < r->p.election_ms;
}

/* A node that was not told any configuration knows nobody and answers everybody: so a first leader comes about. Whose
 * removal is not yet committed is still known: the removal may be undone, and the vote may be needed for it. */
static bool is_known(const struct raft *r, node_id id)
{
	return !conf_in_force(r) || conf_ever_has(r, id, false);
}

static bool is_up_to_date(const struct raft *r, const struct raft_msg *m)
{
	return rlog_is_up_to_date(&r->log, m->index, m->log_term) || SIM_FAULT("no-up-to-date-check");
}

void election_on_prevote(struct raft *r, const struct raft_msg *m)
{
	const bool granted =
	    is_known(r, m->from) && !r->disk.failed && m->term > r->term && !is_sticky(r) && is_up_to_date(r, m);
	const struct raft_msg reply = {
		.type = RAFT_MSG_PREVOTE_REPLY, .to = m->from, .term = granted ? m->term : r->term, .flag = granted
	};
	out_post(r, &reply);
}

void election_on_prevote_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = peer_find(r, m->from);
	if (!m->flag) {
		if (p && m->term > r->term)
			role_follow(r, m->term, 0, RAFT_REASON_TERM);
		return;
	}
	const bool asked = r->role == RAFT_PRECANDIDATE && m->term == r->term + 1;
	const bool mixed_up = r->role == RAFT_CANDIDATE && m->term == r->term && SIM_FAULT("prevote-counted-as-vote");
	if (!asked && !mixed_up)
		return;
	if (p)
		p->granted = true;
	else
		r->election.stray++;
	election_count(r);
}

static void answer_vote(struct raft *r, const struct raft_msg *m, bool granted)
{
	const struct raft_msg reply = { .type = RAFT_MSG_VOTE_REPLY, .to = m->from, .flag = granted };
	out_trace(r, RAFT_TRACE_VOTE, m->from, granted, m->term);
	out_post_durable(r, &reply);
}

void election_on_vote(struct raft *r, const struct raft_msg *m)
{
	const bool heeded = is_known(r, m->from) && !r->disk.failed && m->term >= r->term;
	if (!heeded || (m->term > r->term && is_sticky(r) && !m->flag)) {
		answer_vote(r, m, false);
		return;
	}
	if (m->term > r->term)
		role_follow(r, m->term, 0, RAFT_REASON_TERM);
	const bool granted = (r->vote == 0 || r->vote == m->from) && r->leader == 0 && is_up_to_date(r, m);
	if (granted) {
		election_reset_timer(r);
		if (r->vote == 0)
			disk_set_hard_state(r, r->term, m->from);
	}
	answer_vote(r, m, granted);
}

void election_on_vote_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = peer_find(r, m->from);
	if (m->term > r->term) {
		if (p)
			role_follow(r, m->term, 0, RAFT_REASON_TERM);
		return;
	}
	if (r->role != RAFT_CANDIDATE || m->term != r->term || !m->flag)
		return;
	if (p)
		p->granted = true;
	else
		r->election.stray++;
	election_count(r);
}
