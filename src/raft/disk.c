/* What the disk was asked for and what it has done: tickets, and what follows from them.
 *
 * Good path: raft_ready issues one ticket for everything that changed (term and vote, entries, a reset of the log);
 * raft_persisted returns it, oldest first, and durable moves up.
 *
 * Late completions: entries 6..10 are with the disk, a new leader replaces them from 6 on, and then the first write
 * returns. It proves nothing about 6: the override lies behind it on the same disk. Comparing terms is no help, since
 * a third leader may bring back the very entries of before while the override is still pending. So each completion
 * counts only below the first index of every ticket still outstanding, and of what was not yet issued.
 *
 * Failure: a failed write is final. This node leads no more, never campaigns again and acknowledges nothing; what the
 * disk holds is for the next start to find out. Slowness: a ticket outstanding for two election timeouts makes a leader
 * step down (its heartbeats would hide from everybody that nothing commits) and keeps others from campaigning.
 */
#include "raft/raft_internal.h"

void disk_set_hard_state(struct raft *r, raft_term term, node_id vote)
{
	assert(term > r->term || (term == r->term && (r->vote == 0 || r->vote == vote)));
	/* What was promised in the old term must not leave in the new one: an answer says "I hold entry 10", and entry
	 * 10 may be another by now. */
	if (term > r->term)
		out_drop_held(r);
	r->term = term;
	r->vote = vote;
	r->disk.hard_state_dirty = true;
}

bool disk_has_hard_state(const struct raft *r)
{
	return !r->disk.hard_state_dirty && r->disk.hard_state_ticket == 0;
}

bool disk_is_slow(const struct raft *r)
{
	const struct disk *d = &r->disk;
	return d->count > 0 && r->now_ms - d->v[d->head].issued_ms > 2ull * r->p.election_ms;
}

static void push(struct disk *d, const struct ticket *t)
{
	if (d->head + d->count == d->cap) {
		if (d->head < d->cap - d->cap / 2 || d->cap == 0) {
			d->cap = d->cap ? d->cap * 2 : 16;
			d->v = mem_realloc(d->v, d->cap * sizeof(*d->v));
		}
		if (d->head > 0)
			memmove(d->v, d->v + d->head, d->count * sizeof(*d->v));
		d->head = 0;
	}
	d->v[d->head + d->count++] = *t;
}

void disk_issue(struct raft *r, struct raft_persist *out)
{
	struct disk *d = &r->disk;
	struct rlog *l = &r->log;
	*out = (struct raft_persist){ 0 };
	if (d->failed || !(d->hard_state_dirty || d->reset || l->unwritten <= l->last))
		return;
	const struct ticket t = {
		.id = ++d->next_id,
		.term = r->term,
		.first = l->unwritten,
		.last = l->last,
		.hard_state = d->hard_state_dirty,
		.reset = d->reset,
		.issued_ms = r->now_ms,
	};
	out->ticket = t.id;
	if (t.hard_state) {
		out->hard_state = true;
		out->term = r->term;
		out->vote = r->vote;
		d->hard_state_ticket = t.id;
	}
	if (t.reset) {
		out->reset_to = l->first - 1;
		out->reset_term = l->base_term;
	}
	out->entries = cache_run(&l->cache, t.first, t.last, SIZE_MAX, &out->entry_count);
	assert(out->entry_count == l->last + 1 - l->unwritten);
	push(d, &t);
	d->hard_state_dirty = false;
	d->reset = false;
	l->unwritten = l->last + 1;
}

/* How far the completion of `t` reaches; the outstanding ones all came after it. */
static raft_index reach(const struct raft *r, const struct ticket *t)
{
	raft_index upto = t->last < r->log.unwritten - 1 ? t->last : r->log.unwritten - 1;
	for (size_t i = 0; i < r->disk.count; i++) {
		const struct ticket *later = &r->disk.v[r->disk.head + i];
		if (later->first <= later->last && later->first <= upto && !SIM_FAULT("stale-completion-taken"))
			upto = later->first - 1;
	}
	return upto;
}

static void give_up(struct raft *r)
{
	r->disk.failed = true;
	r->disk.count = 0;
	out_drop_held(r);
	if (r->role != RAFT_FOLLOWER)
		role_follow(r, r->term, 0, RAFT_REASON_DISK_ERROR);
}

void raft_persisted(struct raft *r, uint64_t ticket, int status)
{
	ready_recycle(r);
	struct disk *d = &r->disk;
	if (d->failed)
		return;
	assert(d->count > 0 && d->v[d->head].id == ticket);
	const struct ticket t = d->v[d->head];
	assert(t.term <= r->term);
	if (status != 0) {
		give_up(r);
		return;
	}
	d->head++;
	d->count--;
	const raft_index upto = reach(r, &t);
	if (t.first <= t.last && upto > r->log.durable)
		r->log.durable = upto;
	if (d->hard_state_ticket == t.id)
		d->hard_state_ticket = 0;
	if (disk_has_hard_state(r)) {
		out_release_held(r);
		if (r->role == RAFT_CANDIDATE)
			election_count(r);
	}
	if (r->role == RAFT_LEADER)
		lead_try_commit(r);
	rlog_trim(&r->log, r->p.cache_bytes_max);
}
