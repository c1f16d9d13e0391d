/* §5.3, §10.2: bringing the leader's log to the others.
 *
 * Appends are made when raft_ready asks, from what the log holds then: whatever came in since the last time travels
 * together, and a commit index that moved rides along or goes out by itself at once.
 *
 * STREAM: appends follow each other without waiting, up to a number of bytes and messages un-acknowledged. A lost one
 * shows when the next, or a heartbeat (an empty append behind the last one sent), is refused. PROBE: one append at a
 * time until an answer says where the logs agree; a refusal names the term of the entry there, and both sides skip
 * everything of higher terms (at most one round trip for each term that differs). Entries that left memory are fetched,
 * and the peer waits. Entries that left the log mean an image: snapshot_send.c.
 */
#include "raft/raft_internal.h"

static void send_append(struct raft *r, struct peer *p, raft_index prev, const struct entry *entries, size_t n)
{
	const struct raft_msg m = { .type = RAFT_MSG_APPEND,
		                    .to = p->id,
		                    .index = prev,
		                    .log_term = rlog_term_at(&r->log, prev),
		                    .commit = r->log.commit,
		                    .round = r->lead.round,
		                    .entries = n > 0 ? entries : NULL,
		                    .entry_count = n };
	assert(rlog_knows_term(&r->log, prev));
	out_post(r, &m);
	p->beat = false;
	p->commit_sent = r->log.commit;
}

static void probe(struct raft *r, struct peer *p)
{
	if (p->awaiting && !p->beat)
		return;
	size_t n = 0;
	const struct entry *e = NULL;
	/* The first one is hopeful and carries entries; what repeats it after a heartbeat's silence does not. */
	if (!p->awaiting)
		e = cache_run(&r->log.cache, p->next, r->log.last, r->p.append_bytes_max, &n);
	send_append(r, p, p->next - 1, e, n);
	p->awaiting = true;
}

static void fetch_for(struct raft *r, struct peer *p)
{
	const struct cache *c = &r->log.cache;
	const raft_index hi = c->count > 0 ? c->v[c->head].index - 1 : r->log.last;
	fetch_ask(r, &p->fetch, p->id, p->next, hi, r->p.append_bytes_max);
}

/* One more append with entries; false: not now. */
static bool stream_one(struct raft *r, struct peer *p)
{
	if (p->next > r->log.last || p->window_count == RAFT_WINDOW_MAX)
		return false;
	const struct entry *e = cache_at(&r->log.cache, p->next);
	const bool cached = e != NULL;
	if (!cached)
		e = fetch_at(&p->fetch, p->next);
	if (!e) {
		fetch_for(r, p);
		return false;
	}
	size_t room = r->p.inflight_bytes_max > p->window_bytes ? r->p.inflight_bytes_max - p->window_bytes : 0;
	if (p->window_count > 0 && entry_cost(e) > room)
		return false;
	if (room > r->p.append_bytes_max)
		room = r->p.append_bytes_max;
	size_t n = 0, bytes = 0;
	e = cached ? cache_run(&r->log.cache, p->next, r->log.last, room, &n)
	           : fetch_run(&p->fetch, p->next, r->log.last, room, &n);
	(void)cache_fit(e, n, SIZE_MAX, &bytes); /* only for their bytes: all n fit */
	send_append(r, p, p->next - 1, e, n);
	p->next += n;
	peer_window_push(p, p->next - 1, bytes);
	return true;
}

static void stream(struct raft *r, struct peer *p)
{
	while (stream_one(r, p))
		;
	if (p->beat || p->commit_sent < r->log.commit)
		send_append(r, p, p->next - 1, NULL, 0);
}

static void feed(struct raft *r, struct peer *p)
{
	if (p->state != PEER_SNAPSHOT && rlog_reaches(&r->log, p->next)) {
		if (p->state == PEER_PROBE)
			probe(r, p);
		else
			stream(r, p);
		return;
	}
	if (p->state != PEER_SNAPSHOT)
		(void)snapshot_begin(r, p); /* a silent peer is not sent an image: its first answer starts it */
	if (p->state == PEER_SNAPSHOT)
		snapshot_poll(r, p);
	if (p->beat)
		send_append(r, p, 0, NULL, 0); /* agrees with every log; the answer is how far it has committed */
}

void replicate_all(struct raft *r)
{
	if (r->role != RAFT_LEADER)
		return;
	for (size_t i = 0; i < r->peer_count; i++)
		feed(r, r->peers[i]);
}

void replicate_link_lost(struct raft *r, struct peer *p)
{
	if (p->state == PEER_STREAM)
		peer_probe(p, p->match + 1);
	else if (p->state == PEER_SNAPSHOT)
		snapshot_link_lost(r, p);
}

/* What it had to be sent an image for is behind it: it holds the log back only from there on, or no longer. */
static void move_hold(struct raft *r, struct peer *p)
{
	if (p->hold == 0 || p->match <= p->hold)
		return;
	p->hold = p->match < r->log.snap_index ? p->match : 0;
	if (p->hold == 0)
		compact_try(r);
}

static void on_success(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	if (m->index > r->log.last)
		return; /* nobody holds more of this log than its leader */
	raft_index agreed = m->hint > m->index ? m->hint : m->index;
	if (agreed > r->log.last)
		agreed = r->log.last;
	const bool grew = m->index > p->match;
	if (grew)
		p->match = m->index;
	if (p->state == PEER_SNAPSHOT && rlog_reaches(&r->log, p->match + 1)) {
		snapshot_end(r, p, true);
		peer_probe(p, p->match + 1);
	} else if (p->state == PEER_PROBE && agreed + 1 >= p->next) {
		p->state = PEER_STREAM;
		p->awaiting = false;
		p->next = agreed + 1;
	} else {
		peer_window_ack(p, p->match);
	}
	if (p->next <= p->match)
		p->next = p->match + 1;
	move_hold(r, p);
	if (grew)
		lead_try_commit(r);
}

static void on_reject(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	/* Late ones: about a place that meanwhile agreed, or that this peer is no longer asked about. */
	if (p->state == PEER_SNAPSHOT || m->index <= p->match || m->index >= p->next)
		return;
	if (p->state == PEER_PROBE && m->index != p->next - 1)
		return;
	out_trace(r, RAFT_TRACE_REJECT, p->id, m->index, m->hint);
	raft_index back = m->hint < m->index ? m->hint : m->index - 1;
	if (m->hint_term > 0)
		back = rlog_agree(&r->log, p->match, back, m->hint_term);
	peer_probe(p, back > p->match ? back + 1 : p->match + 1);
}

void replicate_on_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = peer_find(r, m->from);
	if (!p || r->role != RAFT_LEADER)
		return;
	p->contact_ms = r->now_ms;
	const uint64_t round = m->round < r->lead.round ? m->round : r->lead.round;
	if (round > p->round)
		p->round = round;
	if (m->flag)
		on_success(r, p, m);
	else
		on_reject(r, p, m);
	/* The answer may have made this leader the last one to know that it was removed. */
	if (r->role == RAFT_LEADER)
		read_confirm(r);
}
