/* §5: forgetting the log behind a snapshot.
 *
 * An image on its way to a peer holds the log back: what lies behind it must still be there when it is in, or the peer
 * would get image after image and never the log. A peer that fell silent holds back nothing.
 */
#include "raft/raft_internal.h"

/* How long a silent peer may hold the log back, in election timeouts. */
#define SILENCE_MAX 20

void compact_try(struct raft *r)
{
	struct rlog *l = &r->log;
	raft_index upto = r->compact_to < l->snap_index ? r->compact_to : l->snap_index;
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		if (p->image.index == 0 || r->now_ms - p->contact_ms > (uint64_t)SILENCE_MAX * r->p.election_ms)
			continue;
		if (p->image.index < upto)
			upto = p->image.index;
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
