/* Joining a running cluster, seen from the server that joins, and passing on what a joiner asks.
 *
 * A server without a configuration asks everybody it can reach, by --peers or --join, every two seconds; whoever does
 * not lead passes the question on to the leader, which dials back, looks at who is there and takes it in
 * (membership.c). The configuration then comes as part of the log. A server that has one asks only when no leader was
 * heard for long: it may have been removed while it was cut off, or its admission was undone by a change of leaders.
 * Once it was a member it is no newcomer ("fresh"): the cluster then answers that it was removed, it stops asking, and
 * comes back only when an operator adds it, since whoever removed it meant it. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/rules.h"

#define ASK_EVERY_MS 2000
#define LEADERLESS_MS 15000 /* a member that hears no leader for so long asks whether it still is one */
#define LINK_KEPT_MS 10000  /* to whoever answered at an address of --join */
#define REPLY_TEXT_MAX 511

static bool is_member(const struct node *n)
{
	return raft_conf_find(&n->conf, n->self.incarnation) != NULL;
}

/* ---- whom to ask ---- */

static void join_link_name(size_t i, char out[RAFT_NAME_MAX + 1])
{
	snprintf(out, RAFT_NAME_MAX + 1, "join/%zu", i);
}

/* By its name; a link that broke, or is new, has a moment to come up. */
static bool is_reached(const struct node *n)
{
	for (size_t i = 0; i < n->link_count; i++) {
		const struct node_link *l = &n->links[i];
		if (!node_links_is_probe(l->name) &&
		    (n->now < l->dialled_ms + ASK_EVERY_MS || net_peers_is_up(n->net, l->name)))
			return true;
	}
	return false;
}

/* By address only while nobody is reached by name: two links from one server to another would replace each other. */
static void dial_addresses(struct node *n)
{
	const bool reached = is_reached(n);
	for (size_t i = 0; i < n->o.join_count && i < RAFT_SERVERS_MAX; i++) {
		char name[RAFT_NAME_MAX + 1];
		join_link_name(i, name);
		if (!reached)
			(void)node_links_hold(n, name, n->o.join[i],
			                      n->now + 2 * ASK_EVERY_MS); /* else the next time */
	}
}

/* Who comes up can be asked at once. And if it answered at an address of --join: from here on it has a name. */
void node_join_on_up(struct node *n, const struct node_event *ev)
{
	n->join.next_ms = n->now;
	if (strncmp(ev->peer, "join/", 5) != 0)
		return;
	struct node_link *l = node_links_find(n, ev->peer);
	char addr[RAFT_ADDR_MAX + 1];
	if (!l || !rule_member_id(str_of(ev->hello.name)))
		return;
	memcpy(addr, l->addr, sizeof(addr));
	l->keep_until_ms = n->now;
	if (!node_links_find(n, ev->hello.name))
		(void)node_links_hold(n, ev->hello.name, addr, n->now + LINK_KEPT_MS);
}

/* ---- asking ---- */

static bool ask_one(struct node *n, const char *link, const struct wire_join *j)
{
	return node_send_record(n, link, WIRE_JOIN, &wire_join_type, j);
}

static void ask_all(struct node *n)
{
	const struct wire_join j = { .id = str_of(n->o.id),
		                     .incarnation = n->self.incarnation,
		                     .addr = str_of(n->o.cluster_addr),
		                     .voter = !n->o.learner,
		                     .fresh = !n->self.admitted };
	size_t asked = 0;
	for (size_t i = 0; i < n->link_count; i++) {
		struct node_link *l = &n->links[i];
		if (node_links_is_probe(l->name) || !ask_one(n, l->name, &j))
			continue;
		if (l->keep_until_ms != 0 && l->keep_until_ms < n->now + LINK_KEPT_MS)
			l->keep_until_ms = n->now + LINK_KEPT_MS;
		asked++;
	}
	if (asked > 0 && !n->join.asked)
		log_info("join.asked", "servers=%zu fresh=%s", asked, j.fresh ? "yes" : "no");
	n->join.asked |= asked > 0;
}

static void nag(struct node *n)
{
	struct node_join *j = &n->join;
	if (j->next_nag_ms == 0)
		j->next_nag_ms = n->now + NODE_NAG_MS;
	if (n->now < j->next_nag_ms)
		return;
	j->next_nag_ms = n->now + NODE_NAG_MS;
	if (!is_reached(n))
		log_info("join.waiting", "for=\"a server that answers at an address of --join or --peers\"");
	else if (j->last_text[0] == '\0')
		log_info("join.waiting", "for=\"a leader that answers\"");
}

/* Until when is nothing to be asked? */
static uint64_t quiet_until(struct node *n)
{
	struct node_join *j = &n->join;
	if (!node_is_configured(n)) /* who may form a cluster of its own asks nobody */
		return n->o.bootstrap ? UINT64_MAX : 0;
	if (n->view.leader != 0) {
		j->leaderless_ms = 0;
		if (is_member(n))
			j->removed = false; /* added anew */
		return UINT64_MAX;
	}
	if (j->leaderless_ms == 0)
		j->leaderless_ms = n->now;
	return j->removed ? UINT64_MAX : j->leaderless_ms + LEADERLESS_MS;
}

/* Once a committed configuration holds it, this directory is no newcomer's any more. */
static void note_admission(struct node *n)
{
	if (n->self.admitted || n->self.cluster_id == 0 || n->view.conf_pending || !is_member(n))
		return;
	n->self.admitted = true;
	node_log_put_identity(n);
}

uint64_t node_join_turn(struct node *n)
{
	struct node_join *j = &n->join;
	note_admission(n);
	const uint64_t quiet = quiet_until(n);
	if (!n->net || n->now < quiet) {
		j->last_text[0] = '\0';
		j->next_nag_ms = 0;
		return quiet;
	}
	dial_addresses(n);
	nag(n);
	if (n->now >= j->next_ms) {
		j->next_ms = n->now + ASK_EVERY_MS;
		ask_all(n);
	}
	return j->next_ms;
}

/* ---- frames ---- */

static bool read_join(struct node *n, const struct node_event *ev, struct wire_join *out)
{
	struct err e = { 0 };
	arena_reset(&n->scratch);
	const char *why = NULL;
	if (record_read_mp(&wire_join_type, ev->body, ev->len, &n->scratch, out, &e) != 0)
		why = e.msg;
	else if (!rule_member_id(out->id) || !rule_host_port(out->addr) || out->incarnation == 0)
		why = "no server's id, address or incarnation";
	else if (!out->passed_on && (!str_is(out->id, ev->hello.name) || out->incarnation != ev->hello.incarnation))
		why = "asks for another";
	if (why)
		node_bad_frame(n, ev, why);
	return !why;
}

void node_join_on_frame(struct node *n, const struct node_event *ev)
{
	struct wire_join j;
	if (!node_is_configured(n) || !read_join(n, ev, &j) || str_is(j.id, n->o.id))
		return;
	if (n->view.role == RAFT_LEADER) {
		node_membership_admit(n, &j);
		return;
	}
	const char *leader = n->view.leader != 0 ? node_links_name(n, n->view.leader) : NULL;
	if (j.passed_on || !leader)
		return; /* it asks again */
	j.passed_on = true;
	(void)ask_one(n, leader, &j); /* likewise */
}

void node_join_note_removed(struct node *n, const char *told_by)
{
	n->join.removed = true;
	log_warn("node.removed", "told_by=%s remedy=\"stop it; or add it again: veena servers add %s %s\"", told_by,
	         n->o.id, n->o.cluster_addr);
}

void node_join_on_reply(struct node *n, const struct node_event *ev)
{
	struct wire_join_reply r;
	struct err e = { 0 };
	char text[sizeof(n->join.last_text)];
	arena_reset(&n->scratch);
	if (record_read_mp(&wire_join_reply_type, ev->body, ev->len, &n->scratch, &r, &e) != 0 ||
	    r.text.len > REPLY_TEXT_MAX) {
		node_bad_frame(n, ev, e.code ? e.msg : "a long text");
		return;
	}
	log_quote(text, sizeof(text), r.text.p, r.text.len);
	if (r.code == WIRE_JOIN_REMOVED && !n->join.removed) {
		node_join_note_removed(n, ev->hello.name);
		return;
	}
	if (strcmp(text, n->join.last_text) == 0)
		return;
	memcpy(n->join.last_text, text, sizeof(text));
	if (r.code == WIRE_JOIN_REFUSED)
		log_warn("join.refused", "by=%s reason=\"%s\"", ev->hello.name, text);
	else if (r.code == WIRE_JOIN_DEFERRED)
		log_info("join.deferred", "by=%s reason=\"%s\"", ev->hello.name, text);
}
