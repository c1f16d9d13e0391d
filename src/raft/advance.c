/* What follows when the log grows, is cut, or commits, in whatever role this node is.
 *
 * §4.1: a configuration counts from the moment it is appended, and no longer once it is cut off.
 */
#include "raft/raft_internal.h"

void advance_appended(struct raft *r, const struct entry *e, const struct raft_conf *conf)
{
	assert((e->kind == ENTRY_CONFIG) == (conf != NULL));
	rlog_append(&r->log, e);
	if (!conf)
		return;
	confs_push(&r->confs, e->index, conf);
	out_trace(r, RAFT_TRACE_CONF, 0, e->index, 0);
	peer_rebuild(r);
}

void advance_cut(struct raft *r, raft_index first)
{
	assert(r->role != RAFT_LEADER);
	out_trace(r, RAFT_TRACE_TRUNCATE, 0, first, 0);
	rlog_truncate(&r->log, first);
	/* An honest leader never overwrites what it was told agrees. */
	if (r->follow.match >= first)
		r->follow.match = first - 1;
	const struct conf_at *was = conf_in_force(r);
	const raft_index was_index = was ? was->index : 0;
	if (!confs_truncate(&r->confs, first))
		return;
	out_trace(r, RAFT_TRACE_CONF, 0, was_index, 2);
	peer_rebuild(r);
}

void advance_committed(struct raft *r, raft_index index)
{
	const raft_index before = r->log.commit;
	if (index <= before)
		return;
	assert(index <= r->log.last);
	r->log.commit = index;
	if (r->role == RAFT_LEADER)
		lead_count_committed(r, before, index);
	rlog_trim(&r->log, r->p.cache_bytes_max);

	const raft_index conf_index = confs_settle(&r->confs, before, index);
	if (conf_index == 0)
		return;
	out_trace(r, RAFT_TRACE_CONF, 0, conf_index, 1);
	if (SIM_FAULT("conf-only-from-commit"))
		peer_rebuild(r);
	/* §4.2.2: a leader that is no longer a voter leads until the others have decided so, and then goes. */
	if (r->role == RAFT_LEADER && !r->self_voter) {
		transfer_part(r);
		role_follow(r, r->term, 0, RAFT_REASON_REMOVED);
	}
}
