/* §5: forgetting the log behind a snapshot.
 *
 * A peer that was sent an image holds the log behind it back, until it has caught up with the newest snapshot: else it
 * would get image after image and never the log. It holds back nothing while it is silent, nor past a bound: then
 * another image is the lesser evil.
 */
#include "raft/raft_internal.h"

/* How long a silent peer may hold the log back, in election timeouts. */
#define SILENCE_MAX 20
/* How many entries behind the newest snapshot may be kept for a peer. */
#define HOLD_MAX (1u << 17)

void compact_try(struct raft *r)
{
	struct rlog *l = &r->log;
	raft_index upto = r->compact_to < l->snap_index ? r->compact_to : l->snap_index;
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		if (p->hold == 0 || p->hold >= upto || l->snap_index - p->hold > HOLD_MAX)
			continue;
		if (r->now_ms - p->contact_ms <= (uint64_t)SILENCE_MAX * r->p.election_ms)
			upto = p->hold;
	}
	if (upto >= l->first)
		rlog_compact(l, upto);
}

void raft_snapshot_taken(struct raft *r, raft_index index, raft_term term, const struct raft_conf *c,
                         raft_index compact_to)
{
	ready_recycle(r);
	assert(index > 0 && index <= r->log.applied && c);
	if (index > r->log.snap_index) {
		assert(rlog_term_at(&r->log, index) == term || !rlog_knows_term(&r->log, index));
		r->log.snap_index = index;
		r->log.snap_term = term;
		mem_free(r->snap_conf);
		r->snap_conf = mem_dup(c, sizeof(*c));
	}
	if (compact_to > r->compact_to)
		r->compact_to = compact_to;
	compact_try(r);
}
