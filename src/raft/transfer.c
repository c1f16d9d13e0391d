/* §3.10: handing leadership over.
 *
 * The leader stops taking proposals, brings the chosen one fully up to date, and tells it to campaign at once: without
 * pre-vote, and with a mark that makes others listen although they hear a leader. Whom it would leave without writes
 * for long is refused at once: dead, unknown, a learner, far behind. Given up after an election timeout; the leader
 * then goes on as before, and a candidacy that comes late topples it in an orderly way.
 */
#include <inttypes.h>

#include "raft/raft_internal.h"

static int judge(const struct raft *r, const struct peer *p, const char *name, struct err *e)
{
	if (!p->voter)
		return err_set(e, ERR_INVALID, "%s is a learner and cannot lead", name);
	if (!peer_is_active(r, p))
		return err_set(e, ERR_INVALID, "%s does not answer", name);
	const uint64_t lag = r->log.last - p->match;
	if (p->state == PEER_SNAPSHOT || lag > RAFT_LAG_MAX)
		return err_set(e, ERR_INVALID, "%s is %" PRIu64 " entries behind", name, lag);
	return 0;
}

static const char *name_of(const struct raft *r, node_id id)
{
	const struct conf_at *c = conf_in_force(r);
	const struct raft_server *s = c ? raft_conf_find(&c->conf, id) : NULL;
	return s ? s->name : "the server";
}

/* The voter with the longest log among those that answer; NULL: none. */
static const struct peer *pick(const struct raft *r)
{
	const struct peer *best = NULL;
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		if (judge(r, p, "", NULL) == 0 && (!best || p->match > best->match))
			best = p;
	}
	return best;
}

int raft_transfer(struct raft *r, node_id to, struct err *e)
{
	ready_recycle(r);
	if (r->role != RAFT_LEADER)
		return err_set(e, ERR_NOT_LEADER, "this node does not lead");
	if (r->transfer.to != 0)
		return err_set(e, ERR_BUSY, "leadership is being handed to %s already", name_of(r, r->transfer.to));
	if (to == r->p.self)
		return err_set(e, ERR_INVALID, "this node leads already");
	if (to == 0) {
		const struct peer *best = pick(r);
		if (!best && quorum_voters(r) == r->self_voter)
			return err_set(e, ERR_NOTFOUND, "there is no other voter");
		if (!best)
			return err_set(e, ERR_INVALID, "no other voter answers and is caught up");
		to = best->id;
	}
	const struct peer *p = peer_find(r, to);
	if (!p)
		return err_set(e, ERR_NOTFOUND, "no such server in the configuration");
	const int rc = judge(r, p, name_of(r, to), e);
	if (rc)
		return rc;
	r->transfer = (struct transfer){ .to = to, .due_ms = r->now_ms + r->p.election_ms };
	out_trace(r, RAFT_TRACE_TRANSFER, to, 0, 0);
	return 0;
}

static void send_timeout_now(struct raft *r, node_id to)
{
	const struct raft_msg m = { .type = RAFT_MSG_TIMEOUT_NOW, .to = to };
	out_post(r, &m);
}

void transfer_poll(struct raft *r)
{
	struct transfer *t = &r->transfer;
	const struct peer *p = t->to ? peer_find(r, t->to) : NULL;
	if (!p || t->sent || p->match < r->log.last)
		return;
	t->sent = true;
	send_timeout_now(r, t->to);
	out_trace(r, RAFT_TRACE_TRANSFER, t->to, 1, 0);
}

void transfer_beat(struct raft *r)
{
	if (r->transfer.sent)
		send_timeout_now(r, r->transfer.to); /* the first may have been lost; a second finds a higher term */
}

void transfer_tick(struct raft *r)
{
	struct transfer *t = &r->transfer;
	if (t->to == 0 || r->now_ms < t->due_ms)
		return;
	out_trace(r, RAFT_TRACE_TRANSFER, t->to, 2, 0);
	*t = (struct transfer){ 0 };
}

void transfer_part(struct raft *r)
{
	const struct peer *heir = pick(r);
	if (heir && heir->match == r->log.last)
		send_timeout_now(r, heir->id);
}

void transfer_on_timeout_now(struct raft *r, const struct raft_msg *m)
{
	if (r->role == RAFT_FOLLOWER && r->leader == m->from && election_may_campaign(r))
		election_campaign(r, true);
}
