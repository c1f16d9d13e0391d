/* What there is to do, in the order it may be done. Everything that can wait for the end of a turn is made here, from
 * the state as it is then: so a burst of inputs becomes one write, one append to each peer, one answer.
 *
 * What is lent in struct raft_ready stays in place until the next call that may change the core.
 */
#include "raft/raft_internal.h"

void ready_recycle(struct raft *r)
{
	struct out *o = &r->out;
	if (!o->lent)
		return;
	o->lent = false;
	o->msgs.count = 0;
	o->trace_count = 0;
	o->read_count = 0;
	o->fetch_count = 0;
	o->snapshot_read_count = 0;
	fetch_recycle(&r->own);
	for (size_t i = 0; i < r->peer_count; i++)
		fetch_recycle(&r->peers[i]->fetch);
}

static raft_index lower(raft_index a, raft_index b)
{
	return a < b ? a : b;
}

/* What this node's own log has durable is handed out, on the leader too: the state machine and its snapshots are never
 * ahead of the log beside them, whatever a majority elsewhere holds. */
static void hand_committed(struct raft *r, struct raft_ready *out)
{
	struct rlog *l = &r->log;
	raft_index upto = SIM_FAULT("apply-beyond-durable") ? l->commit : lower(l->commit, l->durable);
	upto = lower(upto, l->applied + r->p.apply_entries_max);
	upto = lower(upto, l->handed + RAFT_COMMITTED_MAX);
	if (upto <= l->handed || snapshot_is_switching(r))
		return;
	const raft_index lo = l->handed + 1;
	out->committed = cache_run(&l->cache, lo, upto, RAFT_COMMITTED_BYTES_MAX, &out->committed_count);
	if (!out->committed)
		out->committed = fetch_run(&r->own, lo, upto, RAFT_COMMITTED_BYTES_MAX, &out->committed_count);
	if (!out->committed) {
		const raft_index hi = l->cache.count > 0 ? lower(upto, l->cache.v[l->cache.head].index - 1) : upto;
		fetch_ask(r, &r->own, 0, lo, hi, RAFT_COMMITTED_BYTES_MAX);
		return;
	}
	l->handed += out->committed_count;
}

static uint64_t deadline(const struct raft *r)
{
	uint64_t at = r->election.due_ms;
	if (r->role == RAFT_LEADER) {
		at = r->lead.heartbeat_ms; /* silence, slowness and retries are looked at with each heartbeat */
		if (r->transfer.to != 0)
			at = lower(at, r->transfer.due_ms);
	} else if (r->election.early) {
		at = lower(at, r->election.early_ms);
	}
	if (r->own.retry_ms > r->now_ms)
		at = lower(at, r->own.retry_ms);
	/* A tick that comes later than an election timeout tells that this process did not run (raft_tick); so quiet
	 * waits, which may be twice that long, are cut. */
	return lower(lower(at, read_deadline(r)), r->now_ms + r->p.election_ms / 2);
}

void raft_ready(struct raft *r, struct raft_ready *out)
{
	ready_recycle(r);
	*out = (struct raft_ready){ 0 };
	read_poll(r);
	transfer_poll(r);
	disk_issue(r, &out->persist);
	follow_acknowledge(r);
	replicate_all(r);
	hand_committed(r, out);
	snapshot_offer(r, &out->install);

	struct out *o = &r->out;
	out->msgs = o->msgs.v;
	out->msg_count = o->msgs.count;
	out->fetches = o->fetches;
	out->fetch_count = o->fetch_count;
	out->reads = o->reads;
	out->read_count = o->read_count;
	out->snapshot_reads = o->snapshot_reads;
	out->snapshot_read_count = o->snapshot_read_count;
	out->traces = o->traces;
	out->trace_count = o->trace_count;
	out->deadline_ms = deadline(r);
	out->any = out->persist.ticket != 0 || out->msg_count > 0 || out->committed_count > 0 || out->fetch_count > 0 ||
	           out->read_count > 0 || out->snapshot_read_count > 0 || out->install.index != 0 ||
	           out->trace_count > 0;
	o->lent = out->any;
}
