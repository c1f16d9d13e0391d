/* What other threads may know of this node, published once a turn.
 *
 * The board is read without a lock: a reader copies the cell shown and keeps the copy if the writer has not begun to
 * write over it meanwhile. A writer that is preempted half-way delays nobody, since it writes the other cell. */
#include "node/node_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* ---- consensus thread ---- */

static void fill(struct node *n, struct node_status *s)
{
	const struct raft_view *v = &n->view;
	const bool stopped = n->stopped[0] != '\0';
	s->incarnation = n->self.incarnation;
	s->cluster_id = n->self.cluster_id;
	s->role = stopped ? RAFT_FOLLOWER : v->role;
	s->term = v->term;
	const node_id leader = stopped ? 0 : v->leader;
	const struct raft_server *l = leader ? raft_conf_find(&n->conf, leader) : NULL;
	memset(s->leader, 0, sizeof(s->leader));
	memset(s->leader_addr, 0, sizeof(s->leader_addr));
	if (l) {
		snprintf(s->leader, sizeof(s->leader), "%s", l->name);
		snprintf(s->leader_addr, sizeof(s->leader_addr), "%s", l->addr);
	}
	s->commit_index = v->commit_index;
	s->leader_commit = v->leader_commit;
	s->last_index = v->last_index;
	s->first_index = v->first_index;
	s->durable_index = v->durable_index;
	s->handed_index = v->handed_index;
	s->snapshot_index = v->snapshot_index;
	s->term_start = v->term_start;
	s->contact_ms = v->contact_ms;
	s->leader_since_ms = n->office ? n->office_since : 0;
	s->configured = node_is_configured(n);
	s->stopping = atomic_load_explicit(&n->stop.asked, memory_order_relaxed);
	memcpy(s->stopped, n->stopped, sizeof(s->stopped));
	s->cluster_min_type = n->cluster_min_type;
	memcpy(s->blockers, n->blockers, sizeof(s->blockers));
	s->blocker_count = n->blocker_count;
	s->conf = n->conf;
	memset(s->peers, 0, sizeof(s->peers));
	for (size_t i = 0; i < v->peer_count; i++)
		s->peers[i] = v->peers[i];
	s->peer_count = v->peer_count;
	node_membership_fill(n, s);
	s->registered = n->registration.accepted;
	s->snapshots = n->snap.shown;
	s->room = n->room.shown;
	s->scrub_rounds = n->scrub.rounds;
	s->undecodable = atomic_load_explicit(&n->undecodable, memory_order_relaxed);
}

void node_status_publish(struct node *n)
{
	struct node_status_board *b = &n->board;
	uint64_t words[NODE_STATUS_WORDS];
	fill(n, &n->status);
	words[NODE_STATUS_WORDS - 1] = 0;
	memcpy(words, &n->status, sizeof(n->status));
	if (memcmp(words, n->shown, sizeof(words)) == 0)
		return;
	memcpy(n->shown, words, sizeof(words));
	const uint64_t next = atomic_load_explicit(&b->version, memory_order_relaxed) + 1;
	atomic_store_explicit(&b->begun, next, memory_order_relaxed);
	_Atomic uint64_t *cell = b->cells[next % 2];
	/* Release, so that a reader that sees any of these words also sees that this publication has begun. */
	for (size_t i = 0; i < NODE_STATUS_WORDS; i++)
		atomic_store_explicit(&cell[i], words[i], memory_order_release);
	atomic_store_explicit(&b->version, next, memory_order_release);
	atomic_store_explicit(&b->leader, n->status.role == RAFT_LEADER, memory_order_release);
	atomic_store_explicit(&b->term, n->status.term, memory_order_release);
	atomic_store_explicit(&b->contact_ms, n->status.contact_ms, memory_order_release);
}

/* What the options say never changes; the rest comes from whoever may read it. */
static void put_hello(const struct node *n, uint64_t cluster_id, node_id incarnation, bool configured,
                      struct net_hello *out)
{
	memset(out, 0, sizeof(*out));
	out->cluster_id = cluster_id;
	out->incarnation = incarnation;
	snprintf(out->name, sizeof(out->name), "%s", n->o.id);
	snprintf(out->addr, sizeof(out->addr), "%s", n->o.cluster_addr);
	out->empty = !configured;
	out->learner = n->o.learner;
	out->entry_types = n->o.max_entry_type;
}

void node_fill_hello(const struct node *n, struct net_hello *out)
{
	put_hello(n, n->self.cluster_id, n->self.incarnation, node_is_configured(n), out);
}

/* ---- any thread ---- */

uint64_t node_status_version(const struct node *n)
{
	return atomic_load_explicit(&n->board.version, memory_order_acquire);
}

void node_get_status(const struct node *n, struct node_status *out)
{
	const struct node_status_board *b = &n->board;
	uint64_t words[NODE_STATUS_WORDS];
	for (;;) {
		const uint64_t version = atomic_load_explicit(&b->version, memory_order_acquire);
		const _Atomic uint64_t *cell = b->cells[version % 2];
		for (size_t i = 0; i < NODE_STATUS_WORDS; i++)
			words[i] = atomic_load_explicit(&cell[i], memory_order_acquire);
		if (atomic_load_explicit(&b->begun, memory_order_relaxed) < version + 2)
			break;
	}
	memcpy(out, words, sizeof(*out));
}

void node_self_hello(const struct node *n, struct net_hello *out)
{
	struct node_status s;
	node_get_status(n, &s);
	put_hello(n, s.cluster_id, s.incarnation, s.configured, out);
}

bool node_is_leader(const struct node *n)
{
	return atomic_load_explicit(&n->board.leader, memory_order_acquire);
}

raft_term node_term(const struct node *n)
{
	return atomic_load_explicit(&n->board.term, memory_order_acquire);
}

int64_t node_contact_age_ms(const struct node *n)
{
	const uint64_t contact = atomic_load_explicit(&n->board.contact_ms, memory_order_acquire);
	if (contact == 0)
		return -1;
	const uint64_t now = clock_mono_ms();
	return now > contact ? (int64_t)(now - contact) : 0;
}

struct fsm *node_fsm(struct node *n)
{
	return n->fsm;
}
