/* §5.3 on the leader's side: its own log, heartbeats, commitment; §6.4 check-quorum.
 *
 * What must hold while this node leads: its vote is its own and durable, nothing in its log is cut, the no-op of its
 * term stands at term_start. A leader that cannot know whether it still is one goes: no answer from a majority, a disk
 * that does not return, or a process that was not running.
 */
#include "raft/raft_internal.h"

void lead_begin(struct raft *r)
{
	const struct cache *c = &r->log.cache;
	const raft_index held = c->count > 0 ? c->v[c->head].index : r->log.last + 1;
	r->lead = (struct lead){ .heartbeat_ms = r->now_ms + r->p.heartbeat_ms };
	/* Of a long uncommitted tail found at start, what is not in memory is not counted: the limit is for new work.
	 */
	r->lead.counted_from = held > r->log.commit ? held : r->log.commit + 1;
	for (raft_index i = r->lead.counted_from; i <= r->log.last; i++)
		r->lead.uncommitted_bytes += entry_cost(cache_at(c, i));
	for (size_t i = 0; i < r->peer_count; i++)
		peer_begin(r, r->peers[i]);
	snapshot_drop_install(r);
	/* §8 (6.4 in the dissertation): commits what earlier terms left, and with it tells what is committed. */
	struct entry noop = { .kind = ENTRY_NOOP };
	lead_append(r, &noop, NULL);
	r->lead.term_start = noop.index;
	lead_try_commit(r);
}

void lead_end(struct raft *r)
{
	read_fail_all(r, ERR_NOT_LEADER);
	r->transfer = (struct transfer){ 0 };
	for (size_t i = 0; i < r->peer_count; i++)
		peer_end(r->peers[i]);
	r->lead = (struct lead){ 0 };
	compact_try(r);
}

void lead_append(struct raft *r, struct entry *e, const struct raft_conf *conf)
{
	e->index = r->log.last + 1;
	e->term = r->term;
	r->lead.uncommitted_bytes += entry_cost(e);
	advance_appended(r, e, conf);
}

void lead_count_committed(struct raft *r, raft_index before, raft_index now)
{
	raft_index i = before + 1 > r->lead.counted_from ? before + 1 : r->lead.counted_from;
	for (; i <= now; i++) {
		const size_t cost = entry_cost(cache_at(&r->log.cache, i));
		assert(r->lead.uncommitted_bytes >= cost);
		r->lead.uncommitted_bytes -= cost;
	}
}

bool lead_has_committed(const struct raft *r)
{
	return r->log.commit >= r->lead.term_start;
}

void lead_try_commit(struct raft *r)
{
	assert(r->role == RAFT_LEADER);
	const raft_index match = quorum_match(r);
	if (match <= r->log.commit)
		return;
	/* §5.4.2: only entries of our own term commit by counting; those before them commit along. */
	if (rlog_term_at(&r->log, match) == r->term || SIM_FAULT("commit-older-term"))
		advance_committed(r, match);
}

int raft_propose(struct raft *r, struct entry *entries, size_t n)
{
	ready_recycle(r);
	if (r->role != RAFT_LEADER || r->transfer.to != 0)
		return ERR_NOT_LEADER;
	size_t bytes = 0;
	for (size_t i = 0; i < n; i++) {
		assert(entries[i].kind == ENTRY_COMMAND && entries[i].len <= ENTRY_PAYLOAD_MAX);
		bytes += entry_cost(&entries[i]);
	}
	if (r->lead.uncommitted_bytes > 0 && r->lead.uncommitted_bytes + bytes > r->p.uncommitted_bytes_max)
		return ERR_FULL;
	for (size_t i = 0; i < n; i++)
		lead_append(r, &entries[i], NULL);
	return 0;
}

void lead_tick(struct raft *r)
{
	if (disk_is_slow(r)) {
		role_follow(r, r->term, 0, RAFT_REASON_DISK_SLOW);
		return;
	}
	if (r->now_ms - quorum_contact(r, true) > r->p.election_ms && !SIM_FAULT("no-check-quorum")) {
		role_follow(r, r->term, 0, RAFT_REASON_QUORUM);
		return;
	}
	transfer_tick(r);
	if (r->now_ms < r->lead.heartbeat_ms)
		return;
	r->lead.heartbeat_ms = r->now_ms + r->p.heartbeat_ms;
	for (size_t i = 0; i < r->peer_count; i++)
		r->peers[i]->beat = true;
	transfer_beat(r);
	compact_try(r);
}
