/* §3.10: handing leadership over.
 *
 * The leader stops taking proposals, brings the chosen one fully up to date, and tells it to campaign at once: without
 * pre-vote, and with a mark that makes others listen although they hear a leader. Whom it would leave without writes
 * for long is refused at once: dead, unknown, a learner, far behind. Given up after an election timeout; the leader
 * then goes on as before, and a candidacy that comes late topples it in an orderly way.
 */
#include <inttypes.h>

#include "raft/raft_internal.h"

static enum raft_heir judge(const struct raft *r, const struct peer *p, uint64_t *lag)
{
	*lag = r->log.last - p->match;
	if (!p->voter)
		return RAFT_HEIR_LEARNER;
	if (!peer_is_active(r, p))
		return RAFT_HEIR_SILENT;
	return p->state == PEER_SNAPSHOT || *lag > RAFT_LAG_MAX ? RAFT_HEIR_BEHIND : RAFT_HEIR_FIT;
}

/* The voter with the longest log among those that answer; NULL: none. */
static const struct peer *pick(const struct raft *r)
{
	const struct peer *best = NULL;
	uint64_t lag;
	for (size_t i = 0; i < r->peer_count; i++) {
		const struct peer *p = r->peers[i];
		if (judge(r, p, &lag) == RAFT_HEIR_FIT && (!best || p->match > best->match))
			best = p;
	}
	return best;
}

enum raft_heir raft_judge_heir(const struct raft *r, node_id *to, uint64_t *lag)
{
	*lag = 0;
	if (r->role != RAFT_LEADER)
		return RAFT_HEIR_NOT_LEADER;
	if (r->transfer.to != 0)
		return RAFT_HEIR_BUSY;
	if (*to == r->p.self)
		return RAFT_HEIR_SELF;
	const struct peer *p = *to != 0 ? peer_find(r, *to) : pick(r);
	if (!p && *to != 0)
		return RAFT_HEIR_UNKNOWN;
	if (!p)
		return quorum_voters(r) == r->self_voter ? RAFT_HEIR_NO_OTHER : RAFT_HEIR_NONE_FIT;
	*to = p->id;
	return judge(r, p, lag);
}

static const char *name_of(const struct raft *r, node_id id)
{
	const struct conf_at *c = conf_in_force(r);
	const struct raft_server *s = c ? raft_conf_find(&c->conf, id) : NULL;
	return s ? s->name : "the server";
}

static int refuse(const struct raft *r, enum raft_heir why, node_id to, uint64_t lag, struct err *e)
{
	switch (why) {
	case RAFT_HEIR_FIT: return 0;
	case RAFT_HEIR_NOT_LEADER: return err_set(e, ERR_NOT_LEADER, "this node does not lead");
	case RAFT_HEIR_BUSY:
		return err_set(e, ERR_BUSY, "leadership is being handed to %s already", name_of(r, r->transfer.to));
	case RAFT_HEIR_SELF: return err_set(e, ERR_INVALID, "this node leads already");
	case RAFT_HEIR_UNKNOWN: return err_set(e, ERR_NOTFOUND, "no such server in the configuration");
	case RAFT_HEIR_LEARNER: return err_set(e, ERR_INVALID, "%s is a learner and cannot lead", name_of(r, to));
	case RAFT_HEIR_SILENT: return err_set(e, ERR_INVALID, "%s does not answer", name_of(r, to));
	case RAFT_HEIR_BEHIND: return err_set(e, ERR_INVALID, "%s is %" PRIu64 " entries behind", name_of(r, to), lag);
	case RAFT_HEIR_NO_OTHER: return err_set(e, ERR_NOTFOUND, "there is no other voter");
	case RAFT_HEIR_NONE_FIT: break;
	}
	return err_set(e, ERR_INVALID, "no other voter answers and is caught up");
}

int raft_transfer(struct raft *r, node_id to, struct err *e)
{
	uint64_t lag;
	ready_recycle(r);
	const enum raft_heir why = raft_judge_heir(r, &to, &lag);
	if (why != RAFT_HEIR_FIT)
		return refuse(r, why, to, lag, e);
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
