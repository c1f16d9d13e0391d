/* What a majority of the voters of the configuration in force has: votes, entries, contact, confirmed rounds.
 *
 * One rule for all of them: of n values in descending order, the one at n / 2 is reached by n / 2 + 1 voters. This node
 * counts only if it is a voter itself, and with entries only as far as its own disk has them (§10.2.1 lets the leader
 * write in parallel; it does not let it count early).
 */
#include "raft/raft_internal.h"

struct values {
	uint64_t v[RAFT_SERVERS_MAX];
	size_t n;
};

/* Insertion, descending: there are never more than sixteen. */
static void add(struct values *s, uint64_t value)
{
	size_t i = s->n++;
	for (; i > 0 && s->v[i - 1] < value; i--)
		s->v[i] = s->v[i - 1];
	s->v[i] = value;
}

static uint64_t of_majority(const struct values *s)
{
	return s->n > 0 ? s->v[s->n / 2] : 0;
}

size_t quorum_voters(const struct raft *r)
{
	size_t n = r->self_voter;
	for (size_t i = 0; i < r->peer_count; i++)
		n += r->peers[i]->voter;
	return n;
}

raft_index quorum_match(const struct raft *r)
{
	struct values s = { .n = 0 };
	if (r->self_voter)
		add(&s, SIM_FAULT("ack-before-durable") ? r->log.last : r->log.durable);
	for (size_t i = 0; i < r->peer_count; i++) {
		if (r->peers[i]->voter)
			add(&s, r->peers[i]->match);
	}
	return of_majority(&s);
}

uint64_t quorum_contact(const struct raft *r, bool grace)
{
	struct values s = { .n = 0 };
	if (r->self_voter)
		add(&s, r->now_ms);
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		if (p->voter)
			add(&s, grace && p->since_ms > p->contact_ms ? p->since_ms : p->contact_ms);
	}
	return of_majority(&s);
}

uint64_t quorum_round(const struct raft *r)
{
	struct values s = { .n = 0 };
	if (r->self_voter)
		add(&s, r->lead.round);
	for (size_t i = 0; i < r->peer_count; i++) {
		if (r->peers[i]->voter)
			add(&s, r->peers[i]->round);
	}
	return of_majority(&s);
}

bool quorum_granted(const struct raft *r, bool self)
{
	size_t granted = r->self_voter && self;
	for (size_t i = 0; i < r->peer_count; i++)
		granted += r->peers[i]->voter && r->peers[i]->granted;
	if (SIM_FAULT("wiped-voter-counted"))
		granted += r->election.stray;
	return granted > quorum_voters(r) / 2;
}
