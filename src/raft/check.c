/* The whole invariant of one node, asserted. Slow on purpose: for tests and the simulator, after every step.
 *
 * Where a deliberate fault breaks a line on purpose, the line steps aside: the point of a fault is that the checks
 * outside of the core find it.
 */
#include "raft/raft_internal.h"

static void check_log(const struct raft *r)
{
	const struct rlog *l = &r->log;
	assert(l->first >= 1 && l->first <= l->last + 1);
	assert(l->snap_index >= l->first - 1 || l->snap_index == 0);
	assert(l->snap_index > 0 || l->first == 1);
	assert((l->snap_index > 0) == (r->snap_conf != NULL));
	assert(l->snap_index <= l->applied && l->applied <= l->handed && l->handed <= l->commit &&
	       l->commit <= l->last);
	assert(l->applied + 1 >= l->first);
	assert(l->handed - l->applied <= r->p.apply_entries_max);
	const raft_index safe = l->durable > l->snap_index ? l->durable : l->snap_index;
	assert(l->handed <= safe || SIM_FAULT("apply-beyond-durable"));
	assert(l->durable < l->unwritten && l->unwritten <= l->last + 1);
	assert(l->unwritten >= l->first);
}

static void check_terms(const struct raft *r)
{
	const struct rlog *l = &r->log;
	const struct terms *t = &l->terms;
	assert((t->count > 0) == (l->first <= l->last));
	for (size_t i = 0; i < t->count; i++) {
		assert(t->v[i].first <= l->last && t->v[i].term > 0 && t->v[i].term <= r->term);
		assert(i == 0 ? t->v[i].first == l->first
		              : t->v[i].first > t->v[i - 1].first && t->v[i].term > t->v[i - 1].term);
	}
	assert(t->count == 0 || l->base_term <= t->v[0].term);
}

static void check_cache(const struct raft *r)
{
	const struct rlog *l = &r->log;
	const struct cache *c = &l->cache;
	size_t bytes = 0;
	size_t range = 0; /* of the term table: walked beside the entries, a search for each would cost most */
	assert(c->head + c->count <= c->cap);
	assert(c->count <= l->last + 1 - l->first);
	for (size_t i = 0; i < c->count; i++) {
		const struct entry *e = &c->v[c->head + i];
		while (range + 1 < l->terms.count && l->terms.v[range + 1].first <= e->index)
			range++;
		assert(e->index == l->last + 1 - c->count + i && e->term == l->terms.v[range].term);
		bytes += entry_cost(e);
	}
	assert(bytes == c->bytes);
	/* What the disk was not yet given is there. */
	assert(l->last + 1 - c->count <= l->unwritten);
}

static void check_confs(const struct raft *r)
{
	const struct confs *c = &r->confs;
	for (size_t i = 0; i < c->count; i++) {
		assert(conf_check(&c->v[i].conf, NULL) == 0);
		assert(c->v[i].index <= r->log.last || SIM_FAULT("truncated-conf-kept"));
		assert(i == 0 || (c->v[i].index > c->v[i - 1].index && c->v[i].index > r->log.commit));
	}
	const struct conf_at *now = conf_in_force(r);
	size_t others = 0;
	bool self_voter = false;
	for (uint32_t i = 0; now && i < now->conf.count; i++) {
		const struct raft_server *s = &now->conf.servers[i];
		if (s->id == r->p.self) {
			self_voter = s->voter;
			continue;
		}
		assert(others < r->peer_count && r->peers[others]->id == s->id && r->peers[others]->voter == s->voter);
		others++;
	}
	assert(others == r->peer_count && self_voter == r->self_voter);
}

static void check_disk(const struct raft *r)
{
	const struct disk *d = &r->disk;
	bool has_hard_state = false;
	assert(d->head + d->count <= d->cap);
	for (size_t i = 0; i < d->count; i++) {
		const struct ticket *t = &d->v[d->head + i];
		assert(t->id == d->next_id + 1 - d->count + i && t->term <= r->term);
		assert(i == 0 || (t[-1].term <= t->term && t[-1].issued_ms <= t->issued_ms));
		/* A completion of what was overridden proves nothing. */
		if (t->first <= t->last && !SIM_FAULT("stale-completion-taken"))
			assert(r->log.durable < t->first || r->log.durable <= r->log.snap_index);
		has_hard_state |= t->id == d->hard_state_ticket && t->hard_state;
	}
	assert(d->failed || has_hard_state == (d->hard_state_ticket != 0));
	assert(r->out.held.count == 0 || !disk_has_hard_state(r));
	for (size_t i = 0; i < r->out.held.count; i++)
		assert(r->out.held.v[i].term == r->term);
}

static void check_peer(const struct raft *r, const struct peer *p)
{
	size_t bytes = 0;
	raft_index before = p->match;
	assert(p->match <= r->log.last && p->next <= r->log.last + 1 && p->match < p->next);
	assert((p->state == PEER_SNAPSHOT) == (p->image.index > 0));
	assert(p->state == PEER_STREAM || p->window_count == 0);
	assert(p->state == PEER_PROBE || !p->awaiting);
	for (size_t i = 0; i < p->window_count; i++) {
		const struct inflight *w = &p->window[(p->window_head + i) % RAFT_WINDOW_MAX];
		assert(w->last > before && w->last < p->next);
		before = w->last;
		bytes += w->bytes;
	}
	assert(bytes == p->window_bytes);
	assert(p->round <= r->lead.round);
}

static void check_role(const struct raft *r)
{
	switch (r->role) {
	case RAFT_FOLLOWER:
		assert(r->leader != r->p.self);
		assert(r->follow.match <= r->log.last);
		break;
	case RAFT_PRECANDIDATE: assert(r->leader == 0); break;
	case RAFT_CANDIDATE: assert(r->leader == 0 && r->vote == r->p.self && !r->disk.failed); break;
	case RAFT_LEADER:
		assert(r->leader == r->p.self && r->vote == r->p.self && disk_has_hard_state(r) && !r->disk.failed);
		assert(r->lead.term_start > 0 && r->lead.term_start <= r->log.last);
		assert(r->lead.term_start < r->log.first || rlog_term_at(&r->log, r->lead.term_start) == r->term);
		assert(rlog_last_term(&r->log) == r->term || r->log.last == r->log.snap_index);
		for (size_t i = 0; i < r->peer_count; i++)
			check_peer(r, r->peers[i]);
		break;
	}
	assert(r->role == RAFT_LEADER || r->transfer.to == 0);
	assert(r->role == RAFT_LEADER || r->lead.term_start == 0);
}

void raft_check(const struct raft *r)
{
	check_log(r);
	check_terms(r);
	check_cache(r);
	check_confs(r);
	check_disk(r);
	check_role(r);
	assert(!r->install.has_chunk || r->install.slab);
	assert(r->own.lent <= r->own.count);
}
