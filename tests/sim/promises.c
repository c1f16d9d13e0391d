/* What a node promised, by messages that left it, held against what it does later and what it is after a restart.
 *
 * A vote is given once a term and not forgotten; who leads has the votes of a majority of its configuration; an entry
 * that was acknowledged is there after a crash, as long as no newer leader overrode it; so is one that the node knew
 * durable and committed. Votes belong to incarnations: a server that comes back with an empty disk is another one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "node/node_internal.h"
#include "node/wire.h"
#include "sim.h"

#define TERMS_MAX 4096

struct vote {
	node_id voter;
	node_id candidate;
};

/* Of one incarnation; begun anew with the next. */
struct promise {
	node_id who;
	raft_term vote_term; /* newest in which it voted */
	raft_index acked;    /* newest append it acknowledged as durable ... */
	raft_term acked_term;
	raft_term acked_in; /* ... to the leader of this term */
	raft_index settled; /* durable here and known committed */
};

static struct {
	struct vote votes[TERMS_MAX][2 * SIM_NODES_MAX];
	struct promise nodes[SIM_NODES_MAX];
	struct arena arena;
} p;

static struct promise *promise_of(int node)
{
	struct promise *m = &p.nodes[node];
	const node_id who = w.nodes[node].node->self.incarnation;
	if (m->who != who)
		*m = (struct promise){ .who = who };
	return m;
}

static struct vote *votes_in(raft_term term)
{
	if (term < TERMS_MAX)
		return p.votes[term];
	world_fail("more terms than the simulator holds");
}

static void vote_left(int node, raft_term term, node_id candidate)
{
	struct promise *m = promise_of(node);
	struct vote *v = votes_in(term);
	size_t i = 0;
	while (v[i].voter && v[i].voter != m->who)
		i++;
	if (v[i].voter && v[i].candidate != candidate)
		world_fail("two votes in term %" PRIu64 " by %s", term, w.nodes[node].name);
	v[i] = (struct vote){ m->who, candidate };
	if (term > m->vote_term)
		m->vote_term = term;
}

static void message_left(int node, const struct raft_msg *m)
{
	if (m->type == RAFT_MSG_VOTE) {
		vote_left(node, m->term, m->from);
	} else if (m->type == RAFT_MSG_VOTE_REPLY && m->flag) {
		vote_left(node, m->term, m->to);
	} else if (m->type == RAFT_MSG_APPEND_REPLY && m->flag) {
		struct promise *mine = promise_of(node);
		mine->acked = m->index;
		mine->acked_term = raft_term_at(w.nodes[node].node->raft, m->index);
		mine->acked_in = m->term;
	}
}

void promise_frame(int node, uint16_t type, struct slab *slab)
{
	struct raft_msg m;
	uint64_t cluster;
	struct err e;
	if (type != WIRE_RAFT)
		return;
	arena_reset(&p.arena);
	if (wire_get_msg(slab, slab->data, slab->len, &p.arena, &cluster, &m, &e) != 0)
		world_fail("%s sends what nobody reads: %s", w.nodes[node].name, e.msg);
	message_left(node, &m);
}

void promise_look(int node)
{
	struct raft_view v;
	struct promise *m = promise_of(node);
	raft_view(w.nodes[node].node->raft, &v);
	const raft_index settled = v.durable_index < v.commit_index ? v.durable_index : v.commit_index;
	if (settled > m->settled)
		m->settled = settled;
}

/* Of a new leader: votes that left voters of its configuration for it, in its term. */
void promise_check_leader(int node, raft_term term, const struct raft_conf *conf)
{
	const node_id who = w.nodes[node].node->self.incarnation;
	const struct vote *v = votes_in(term);
	size_t granted = 0;
	size_t voters = 0;
	for (uint32_t i = 0; i < conf->count; i++) {
		const struct raft_server *s = &conf->servers[i];
		voters += s->voter;
		for (size_t k = 0; s->voter && v[k].voter; k++)
			granted += v[k].voter == s->id && v[k].candidate == who;
	}
	if (voters > 1 && granted <= voters / 2)
		world_fail("%s leads term %" PRIu64 " with %zu votes of %zu voters", w.nodes[node].name, term, granted,
		           voters);
}

void promise_started(int node)
{
	const struct sim_node *s = &w.nodes[node];
	const struct promise *m = promise_of(node);
	struct raft_view v;
	raft_view(s->node->raft, &v);
	if (v.term < m->vote_term)
		world_fail("%s voted in term %" PRIu64 " and starts in term %" PRIu64, s->name, m->vote_term, v.term);
	if (v.last_index < m->settled)
		world_fail("%s had %" PRIu64 " durable and committed and starts with a log up to %" PRIu64, s->name,
		           m->settled, v.last_index);
	if (v.term < m->acked_in)
		world_fail("%s acknowledged in term %" PRIu64 " and starts in term %" PRIu64, s->name, m->acked_in,
		           v.term);
	/* A newer leader may have overridden the rest. */
	if (v.term == m->acked_in && m->acked > v.snapshot_index &&
	    (v.last_index < m->acked || raft_term_at(s->node->raft, m->acked) != m->acked_term))
		world_fail("%s acknowledged entry %" PRIu64 " and starts without it", s->name, m->acked);
}
