/* When a learner may vote: how well each server keeps up, what stands in the way of a promotion, and promoting those
 * that are staged for it. Leader only; a new leader watches for itself before it believes anything. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KEEP_UP_LAG 256 /* entries */
#define KEEP_UP_MS 1000 /* so long within KEEP_UP_LAG before a vote is given */
#define PROMOTE_EVERY_MS 100

/* ---- how it stands ---- */

static const struct raft_peer_view *peer_of(const struct node *n, node_id id)
{
	for (size_t i = 0; i < n->view.peer_count; i++) {
		if (n->view.peers[i].id == id)
			return &n->view.peers[i];
	}
	return NULL;
}

/* On the leader: did it answer within `ms`? */
bool node_has_answered(const struct node *n, node_id id, uint64_t ms)
{
	if (id == n->self.incarnation)
		return true;
	const struct raft_peer_view *p = peer_of(n, id);
	return p && p->contact_ms > 0 && n->now <= p->contact_ms + ms;
}

static uint64_t *keeping_up(struct node *n, node_id id, bool make)
{
	struct node_membership *m = &n->membership;
	for (size_t i = 0; i < RAFT_SERVERS_MAX; i++) {
		if (m->keeping_up[i].id == id)
			return &m->keeping_up[i].since_ms;
	}
	for (size_t i = 0; make && i < RAFT_SERVERS_MAX; i++) {
		if (m->keeping_up[i].id != 0 && raft_conf_find(&n->conf, m->keeping_up[i].id))
			continue;
		m->keeping_up[i].id = id;
		m->keeping_up[i].since_ms = 0;
		return &m->keeping_up[i].since_ms;
	}
	return NULL;
}

/* Counted anew under each leader: what another one saw is not known here. And anew for whoever left and came back. */
static void watch_lags(struct node *n)
{
	if (n->office == 0) {
		memset(n->membership.keeping_up, 0, sizeof(n->membership.keeping_up));
		return;
	}
	for (size_t i = 0; i < RAFT_SERVERS_MAX; i++) {
		if (!raft_conf_find(&n->conf, n->membership.keeping_up[i].id))
			n->membership.keeping_up[i].since_ms = 0;
	}
	for (size_t i = 0; i < n->view.peer_count; i++) {
		const struct raft_peer_view *p = &n->view.peers[i];
		uint64_t *since = keeping_up(n, p->id, true);
		const bool does =
		    node_has_answered(n, p->id, n->o.election_ms) && p->match + KEEP_UP_LAG >= n->view.last_index;
		if (since && !does)
			*since = 0;
		else if (since && *since == 0)
			*since = n->now;
	}
}

void node_membership_fill(const struct node *n, struct node_status *s)
{
	memset(s->servers, 0, sizeof(s->servers));
	for (uint32_t i = 0; i < n->conf.count; i++) {
		const struct raft_server *srv = &n->conf.servers[i];
		struct node_server_view *v = &s->servers[i];
		const struct node_report *row = node_gate_report(n, srv->name);
		v->row = row ? row->row : NODE_ROW_NONE;
		v->answers = n->office != 0 && node_has_answered(n, srv->id, 2ull * n->o.election_ms);
		if (srv->id == n->self.incarnation) {
			v->heard = true;
			v->never_votes = n->o.learner;
			v->keeps_up_ms = n->office ? n->office_since : 0;
			continue;
		}
		const struct net_hello *h = node_links_heard(n, srv);
		v->heard = h != NULL;
		v->never_votes = h && h->learner;
		for (size_t k = 0; k < RAFT_SERVERS_MAX; k++) {
			if (n->membership.keeping_up[k].id == srv->id)
				v->keeps_up_ms = n->membership.keeping_up[k].since_ms;
		}
	}
	s->removed = n->join.removed;
}

/* ---- promotion ---- */

static const struct raft_peer_view *status_peer(const struct node_status *s, node_id id)
{
	for (size_t i = 0; i < s->peer_count; i++) {
		if (s->peers[i].id == id)
			return &s->peers[i];
	}
	return NULL;
}

static PRINTF_LIKE(4, 5) enum node_fault fault(enum node_fault f, char *why, size_t cap, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(why, cap, fmt, args);
	va_end(args);
	return f;
}

/* The first of these counts; none of the sentences carries a time, so that a repeated one is not logged again. */
enum node_fault node_promotion_fault(const struct node_status *s, uint32_t at, uint64_t now_ms, char *why, size_t cap)
{
	const struct raft_server *srv = &s->conf.servers[at];
	const struct node_server_view *v = &s->servers[at];
	if (srv->voter)
		return NODE_FAULT_NONE;
	const struct raft_peer_view *p = status_peer(s, srv->id);
	if (v->never_votes)
		return fault(NODE_FAULT_LEARNER, why, cap, "it was started with --learner");
	if (s->role != RAFT_LEADER)
		return fault(NODE_FAULT_UNKNOWN, why, cap, "only the leader knows how far it is");
	if (!p || p->contact_ms == 0)
		return fault(NODE_FAULT_SILENT, why, cap, "it has not answered this leader yet");
	const uint64_t lag = s->last_index > p->match ? s->last_index - p->match : 0;
	if (v->keeps_up_ms == 0 && lag > KEEP_UP_LAG)
		return fault(NODE_FAULT_BEHIND, why, cap, "it is %" PRIu64 " entries behind", lag);
	if (v->keeps_up_ms == 0)
		return fault(NODE_FAULT_SILENT, why, cap, "it does not answer");
	if (now_ms < v->keeps_up_ms + KEEP_UP_MS)
		return fault(NODE_FAULT_RECENT, why, cap, "it has caught up only just now");
	if (v->row == NODE_ROW_NONE)
		return fault(NODE_FAULT_ROW, why, cap, "it has not registered as a member yet");
	if (v->row == NODE_ROW_DEAD)
		return fault(NODE_FAULT_ROW, why, cap, "its member record says dead");
	if (v->row == NODE_ROW_DRAINING)
		return fault(NODE_FAULT_ROW, why, cap, "its member record says draining");
	return NODE_FAULT_NONE;
}

/* Judged from what was published last: a turn old, and raft judges again. */
enum node_fault node_promotion_blocked(const struct node *n, const struct raft_server *s, char *why, size_t cap)
{
	for (uint32_t i = 0; i < n->status.conf.count; i++) {
		if (n->status.conf.servers[i].id == s->id)
			return node_promotion_fault(&n->status, i, n->now, why, cap);
	}
	return fault(NODE_FAULT_RECENT, why, cap, "it was added only just now");
}

static void say_once(struct node *n, const char *id, const char *why)
{
	char text[sizeof(n->membership.last_fault)];
	snprintf(text, sizeof(text), "%s %s", id, why);
	if (strcmp(text, n->membership.last_fault) == 0)
		return;
	memcpy(n->membership.last_fault, text, sizeof(text));
	log_info("member.not_promoted", "id=%s reason=\"%s\"", id, why);
}

static void promote_one(struct node *n, const struct raft_server *s)
{
	char why[256];
	const enum node_fault f = node_promotion_blocked(n, s, why, sizeof(why));
	if (f != NODE_FAULT_NONE) {
		/* How far it is behind changes all the time; that it is does not. */
		if (f != NODE_FAULT_RECENT)
			say_once(n, s->name, f == NODE_FAULT_BEHIND ? "it has not caught up yet" : why);
		return;
	}
	raft_index index;
	struct err e = { 0 };
	const int rc = raft_change_conf(n->raft, RAFT_PROMOTE, s, &index, &e);
	if (rc == 0)
		log_info("member.promoted", "id=%s index=%" PRIu64, s->name, index);
	else if (rc != ERR_BUSY) /* that one ends by itself */
		say_once(n, s->name, e.msg);
}

/* Whoever was asked for as a voter becomes one when it keeps up. */
uint64_t node_promote_turn(struct node *n)
{
	watch_lags(n);
	bool any = false;
	const bool due = n->now >= n->membership.next_promotion_ms;
	for (uint32_t i = 0; n->office != 0 && i < n->conf.count; i++) {
		if (!n->conf.servers[i].staged)
			continue;
		any = true;
		if (due)
			promote_one(n, &n->conf.servers[i]);
	}
	if (due)
		n->membership.next_promotion_ms = n->now + PROMOTE_EVERY_MS;
	return any ? n->membership.next_promotion_ms : UINT64_MAX;
}
