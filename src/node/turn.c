/* One turn of the consensus thread: tell raft the time, give it everything that came, carry out what it asks for,
 * publish what became of it. Nothing here waits: not for a file, not for a lock, not for room in a queue. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what a change in raft's state means for the rest ---- */

static void take_conf(struct node *n)
{
	const struct raft_conf *c = n->view.conf;
	const uint32_t count = c ? c->count : 0;
	if (count == n->conf.count &&
	    (count == 0 || memcmp(c->servers, n->conf.servers, count * sizeof(c->servers[0])) == 0))
		return;
	const bool first = n->conf.count == 0;
	memset(&n->conf, 0, sizeof(n->conf));
	if (c)
		n->conf = *c;
	node_gate_recount(n);
	node_links_refresh(n);
	if (first || count == 0)
		node_announce(n);
}

static void tell_office(struct node *n, raft_term term)
{
	n->office = term;
	n->office_since = term ? n->now : 0;
	for (size_t i = 0; i < n->listener_count; i++)
		n->listeners[i].fn(n->listeners[i].arg, term);
}

/* An office that was lost, or lost and won again, ends everything that waited under it. */
static void take_office(struct node *n)
{
	const bool leads = n->view.role == RAFT_LEADER && n->stopped[0] == '\0';
	const raft_term term = leads ? n->view.term : 0;
	if (term == n->office)
		return;
	if (n->office != 0) {
		node_pending_fail(n);
		tell_office(n, 0);
	}
	if (term != 0)
		tell_office(n, term);
}

void node_look(struct node *n)
{
	raft_view(n->raft, &n->view);
	take_conf(n);
	n->view.conf = NULL; /* raft's memory; n->conf is ours */
}

void node_announce(struct node *n)
{
	if (!n->net)
		return;
	struct net_hello h;
	node_fill_hello(n, &h);
	net_peers_set_self(n->net, &h);
}

/* ---- stopped: this node no longer votes, leads or acknowledges; it only says so ---- */

void node_mark_stopped(struct node *n, const char *why)
{
	if (n->stopped[0] == '\0')
		snprintf(n->stopped, sizeof(n->stopped), "%s", why);
}

static uint64_t stopped_turn(struct node *n)
{
	node_log_drain(n); /* whoever still writes hands back what it holds */
	node_apply_drain(n);
	node_fetch_drain(n);
	node_send_drain(n);
	node_inbox_discard(n);
	node_look(n);
	take_office(n);
	node_pending_fail(n);
	node_propose_drain(n); /* judged: all refused */
	node_read_refuse(n, ERR_STOPPED);
	(void)node_transfer_turn(n);
	node_snapshot_refuse(n, ERR_STOPPED);
	node_membership_refuse(n, ERR_STOPPED);
	node_register_drain(n);
	(void)node_stop_turn(n); /* drained at once */
	node_status_publish(n);
	return UINT64_MAX;
}

/* ---- the turn ---- */

static void take_inputs(struct node *n)
{
	raft_tick(n->raft, n->now); /* before anything else: raft must know how late it is */
	node_log_drain(n);
	node_install_drain(n); /* raft is told of another file before it hears what that file has applied */
	node_apply_drain(n);
	node_snapshot_drain(n);
	node_fetch_drain(n);
	node_send_drain(n);
	node_inbox_drain(n);
	node_look(n);
}

static bool is_more_queued(const struct node *n)
{
	return !queue_is_empty(n->proposals) || !queue_is_empty(n->readers) || !queue_is_empty(n->asks) ||
	       !queue_is_empty(n->changes) || !queue_is_empty(n->log_out) || !queue_is_empty(n->fetched) ||
	       !queue_is_empty(n->own_done) || !queue_is_empty(n->chunks) || !queue_is_empty(n->snapshot_asks) ||
	       n->inbox.count > 0;
}

uint64_t node_turn(struct node *n, uint64_t now_ms)
{
	n->now = now_ms;
	if (n->stopped[0] != '\0')
		return stopped_turn(n);
	take_inputs(n);
	uint64_t next = node_sooner(node_links_turn(n), node_bootstrap_turn(n));
	node_register_drain(n);
	next = node_sooner(next, node_register_turn(n)); /* before proposals: it makes one on the leader */
	node_propose_drain(n);
	node_read_drain(n);
	next = node_sooner(next, node_transfer_turn(n));
	next = node_sooner(next, node_promote_turn(n));
	next = node_sooner(next, node_membership_turn(n));
	next = node_sooner(next, node_join_turn(n));
	next = node_sooner(next, node_stop_turn(n));
	node_carry_out(n);
	node_look(n);
	take_office(n);
	next = node_sooner(next, node_apply_timers(n));
	next = node_sooner(next, node_snapshot_turn(n));
	next = node_sooner(next, node_install_turn(n));
	next = node_sooner(next, node_room_turn(n));
	next = node_sooner(next, node_scrub_turn(n));
	node_status_publish(n);
	next = node_sooner(next, n->raft_deadline);
	return is_more_queued(n) || n->stopped[0] != '\0' ? now_ms : next;
}
