/* Making a core, time, and the door through which messages come in. What a message means stands with its rule.
 *
 * The term rule of §5.1 is here: a lower term is answered or dropped, a higher one followed - but only from servers the
 * configuration knows, and from whoever leads (a new server may be led by one it was never told of). Votes and
 * pre-votes have rules of their own, in election.c.
 */
#include "raft/raft_internal.h"

void raft_params_default(struct raft_params *p)
{
	*p = (struct raft_params){
		.heartbeat_ms = 100,
		.election_ms = 500,
		.append_bytes_max = 256u << 10,
		.inflight_bytes_max = 2u << 20,
		.cache_bytes_max = 4u << 20,
		.uncommitted_bytes_max = 16u << 20,
		.apply_entries_max = 4096,
	};
}

/* A crash between the switch to an image and the reset of the log leaves a log that ends before it, or disagrees. An
 * empty one may begin anywhere up to it, which only a reset puts straight. */
static bool is_behind_snapshot(const struct raft_start *s, const struct rlog *l)
{
	if (s->first_index == 0)
		return s->snapshot_index > 0;
	if (l->last < l->snap_index)
		return true;
	return l->snap_index >= l->first && rlog_term_at(l, l->snap_index) != l->snap_term;
}

static void load_confs(struct raft *r, const struct raft_start *s, bool log_dropped)
{
	if (log_dropped || !s->conf || s->conf_index == 0) {
		const struct raft_conf *c = s->snapshot_conf ? s->snapshot_conf : s->conf;
		if (c)
			confs_reset(&r->confs, c);
		return;
	}
	if (s->conf_prev)
		confs_push(&r->confs, s->conf_prev_index, s->conf_prev);
	else if (s->snapshot_conf)
		confs_push(&r->confs, 0, s->snapshot_conf);
	confs_push(&r->confs, s->conf_index, s->conf);
	(void)confs_settle(&r->confs, 0, r->log.commit); /* what is committed already is no news */
}

struct raft *raft_new(const struct raft_params *p, const struct raft_start *s, uint64_t now_ms)
{
	assert(p->self != 0 && p->heartbeat_ms > 0 && p->election_ms > p->heartbeat_ms);
	assert(p->append_bytes_max > 0 && p->inflight_bytes_max > 0 && p->apply_entries_max > 0);
	assert(s->snapshot_index == 0 || s->snapshot_conf);
	struct raft *r = mem_zalloc(sizeof(*r));
	r->p = *p;
	rand_seed(&r->dice, p->seed);
	r->now_ms = now_ms;
	r->term = s->term;
	r->vote = s->vote;
	rlog_init(&r->log, s);
	const bool drop_log = is_behind_snapshot(s, &r->log);
	if (drop_log) {
		rlog_reset(&r->log, s->snapshot_index, s->snapshot_term);
		r->disk.reset = true;
	}
	assert(r->log.applied <= r->log.last && r->log.applied + 1 >= r->log.first);
	assert(rlog_last_term(&r->log) <= r->term || r->log.last == s->snapshot_index);
	if (s->snapshot_conf)
		r->snap_conf = mem_dup(s->snapshot_conf, sizeof(*s->snapshot_conf));
	load_confs(r, s, drop_log);
	peer_rebuild(r);
	election_reset_timer(r);
	if (r->self_voter && quorum_voters(r) == 1)
		r->election.due_ms = now_ms; /* nobody else to hear from */
	return r;
}

void raft_free(struct raft *r)
{
	if (!r)
		return;
	peer_free_all(r);
	snapshot_drop_install(r);
	slab_unref(r->install.slab);
	mem_free(r->install.conf);
	fetch_fini(&r->own);
	read_fini(r);
	out_fini(&r->out);
	confs_fini(&r->confs);
	rlog_fini(&r->log);
	mem_free(r->snap_conf);
	mem_free(r->disk.v);
	mem_free(r);
}

void raft_tick(struct raft *r, uint64_t now_ms)
{
	ready_recycle(r);
	assert(now_ms >= r->now_ms);
	const bool late = now_ms - r->now_ms > r->p.election_ms;
	r->now_ms = now_ms;
	read_tick(r);
	if (late) {
		/* This process did not run, and others may long have moved on. What they sent meanwhile is still
		 * unread, so the silence is no reason to campaign; but it ends all authority of before. */
		if (r->role != RAFT_FOLLOWER)
			role_follow(r, r->term, 0, RAFT_REASON_LATE_TICK);
		election_reset_timer(r);
		return;
	}
	if (r->role == RAFT_LEADER)
		lead_tick(r);
	else
		election_tick(r);
}

void raft_peer_lost(struct raft *r, node_id peer, bool refused)
{
	ready_recycle(r);
	struct peer *p = peer_find(r, peer);
	if (r->role != RAFT_LEADER)
		election_peer_lost(r, peer, refused);
	else if (p)
		replicate_link_lost(r, p);
}

void raft_applied(struct raft *r, raft_index index)
{
	ready_recycle(r);
	assert(index <= r->log.handed);
	if (index > r->log.applied)
		r->log.applied = index;
}

/* Is this for us, and are its numbers such that sums of them cannot wrap? */
static bool is_plausible(const struct raft *r, const struct raft_msg *m)
{
	/* An id is an incarnation: what is meant for a directory that was wiped is not meant for the one in its place.
	 */
	if (m->to != r->p.self && !SIM_FAULT("wiped-voter-counted"))
		return false;
	return m->from != 0 && m->from != r->p.self && m->term <= RAFT_NUMBER_MAX && m->index <= RAFT_NUMBER_MAX &&
	       m->log_term <= RAFT_NUMBER_MAX && m->commit <= RAFT_NUMBER_MAX && m->hint <= RAFT_NUMBER_MAX &&
	       m->offset <= RAFT_NUMBER_MAX && m->entry_count <= RAFT_NUMBER_MAX;
}

/* Only the leader of the message's term sends these, and there is one. False: not taken. */
static bool follow_sender(struct raft *r, const struct raft_msg *m)
{
	if (m->term == r->term) {
		if (r->role == RAFT_LEADER || (r->leader != 0 && r->leader != m->from))
			return false;
	}
	if (m->term > r->term || r->role != RAFT_FOLLOWER || r->leader != m->from)
		role_follow(r, m->term, m->from, RAFT_REASON_TERM);
	election_heard_leader(r);
	return true;
}

/* §5.1. False: the message is dealt with. */
static bool settle_term(struct raft *r, const struct raft_msg *m)
{
	const bool leads = m->type == RAFT_MSG_APPEND || m->type == RAFT_MSG_SNAPSHOT;
	if (m->term < r->term) {
		if (leads)
			follow_refuse_stale(r, m);
		return false;
	}
	if (leads)
		return follow_sender(r, m);
	if (m->term > r->term) {
		if (!peer_find(r, m->from))
			return false;
		role_follow(r, m->term, 0, RAFT_REASON_TERM);
	}
	return true;
}

static void dispatch(struct raft *r, const struct raft_msg *m)
{
	switch (m->type) {
	case RAFT_MSG_APPEND: follow_on_append(r, m); break;
	case RAFT_MSG_APPEND_REPLY: replicate_on_reply(r, m); break;
	case RAFT_MSG_TIMEOUT_NOW: transfer_on_timeout_now(r, m); break;
	case RAFT_MSG_READ: read_on_read(r, m); break;
	case RAFT_MSG_READ_REPLY: read_on_read_reply(r, m); break;
	case RAFT_MSG_SNAPSHOT: snapshot_on_chunk(r, m); break;
	case RAFT_MSG_SNAPSHOT_REPLY: snapshot_on_reply(r, m); break;
	case RAFT_MSG_PREVOTE:
	case RAFT_MSG_PREVOTE_REPLY:
	case RAFT_MSG_VOTE:
	case RAFT_MSG_VOTE_REPLY: break;
	}
}

static bool is_known_type(enum raft_msg_type type)
{
	return type >= RAFT_MSG_PREVOTE && type <= RAFT_MSG_SNAPSHOT_REPLY;
}

void raft_step(struct raft *r, const struct raft_msg *m)
{
	ready_recycle(r);
	if (!is_plausible(r, m) || !is_known_type(m->type))
		return;
	switch (m->type) {
	case RAFT_MSG_PREVOTE: election_on_prevote(r, m); return;
	case RAFT_MSG_PREVOTE_REPLY: election_on_prevote_reply(r, m); return;
	case RAFT_MSG_VOTE: election_on_vote(r, m); return;
	case RAFT_MSG_VOTE_REPLY: election_on_vote_reply(r, m); return;
	default: break;
	}
	if (settle_term(r, m))
		dispatch(r, m);
}

raft_term raft_term_at(const struct raft *r, raft_index index)
{
	return rlog_term_at(&r->log, index);
}

static void view_peers(const struct raft *r, struct raft_view *out)
{
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		out->peers[out->peer_count++] = (struct raft_peer_view){
			.id = p->id,
			.voter = p->voter,
			.match = p->match,
			.contact_ms = p->contact_ms,
			.paused = p->state == PEER_SNAPSHOT || p->awaiting || p->fetch.asked,
			.holds = p->hold,
			.holds_since_ms = p->hold ? p->hold_since_ms : 0,
			.image = p->image.index,
		};
	}
}

void raft_view(const struct raft *r, struct raft_view *out)
{
	const struct rlog *l = &r->log;
	const bool leads = r->role == RAFT_LEADER;
	const struct conf_at *conf = conf_in_force(r);
	*out = (struct raft_view){
		.role = r->role,
		.term = r->term,
		.leader = r->leader,
		.commit_index = l->commit,
		.leader_commit = leads && l->commit > r->follow.commit ? l->commit : r->follow.commit,
		.last_index = l->last,
		.durable_index = l->durable,
		.first_index = l->first,
		.handed_index = l->handed,
		.applied_index = l->applied,
		.snapshot_index = l->snap_index,
		.term_start = leads ? r->lead.term_start : 0,
		.contact_ms = leads ? quorum_contact(r, false) : r->follow.contact_ms,
		.transferring = r->transfer.to != 0,
		.disk_failed = r->disk.failed,
		.conf = conf ? &conf->conf : NULL,
		.conf_index = conf ? conf->index : 0,
		.conf_pending = conf && conf->index > l->commit,
	};
	if (leads)
		view_peers(r, out);
}
