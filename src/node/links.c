/* Whom this node dials, and where. Names are the keys towards net, incarnations towards raft.
 *
 * An address is known from up to three places: --peers, the Raft configuration, and what a peer says of itself in its
 * hello. The configuration replaces the option; a hello replaces both when it comes from the very incarnation the
 * configuration names, so that a server that moved with its disk is dialled where it is before the configuration
 * can be changed to say so. Any of them may be out of date (all servers moved at once; old flags after a power cut), so
 * where two differ, a link that does not come up is tried at the other address in turn. */
#include "node/node_internal.h"

#include <stdio.h>
#include <string.h>

#define OTHER_ADDRESS_MS 2000 /* a link is down so long before the other address is tried */
#define LINGER_MS 5000        /* a link to who was removed is kept so long */
#define KEEP_LEADER_MS 10000  /* and one to a leader that no configuration names, behind its last message */

struct node_link *node_links_find(struct node *n, const char *name)
{
	for (size_t i = 0; i < n->link_count; i++) {
		if (strcmp(n->links[i].name, name) == 0)
			return &n->links[i];
	}
	return NULL;
}

static struct node_link *link_add(struct node *n, const char *name)
{
	struct node_link *l = node_links_find(n, name);
	if (l || n->link_count == NODE_LINKS_MAX)
		return l;
	l = &n->links[n->link_count++];
	memset(l, 0, sizeof(*l));
	snprintf(l->name, sizeof(l->name), "%s", name);
	return l;
}

static void link_dial(struct node *n, struct node_link *l, const char *addr)
{
	l->dialled_ms = n->now;
	if (strcmp(l->addr, addr) == 0)
		return;
	snprintf(l->addr, sizeof(l->addr), "%s", addr);
	net_peers_set(n->net, l->name, l->addr);
}

void node_links_start(struct node *n)
{
	for (size_t i = 0; i < n->o.peer_count; i++) {
		const struct node_peer_addr *p = &n->o.peers[i];
		if (strcmp(p->name, n->o.id) == 0)
			continue;
		struct node_link *l = link_add(n, p->name);
		if (!l)
			continue; /* node_open refused more peers than links */
		snprintf(l->option_addr, sizeof(l->option_addr), "%s", p->addr);
		link_dial(n, l, p->addr);
	}
	node_links_refresh(n);
}

struct node_link *node_links_hold(struct node *n, const char *name, const char *addr, uint64_t until_ms)
{
	struct node_link *l = link_add(n, name);
	if (!l)
		return NULL;
	if (l->keep_until_ms < until_ms)
		l->keep_until_ms = until_ms;
	link_dial(n, l, addr);
	return l;
}

bool node_links_is_probe(const char *name)
{
	return strchr(name, '/') != NULL;
}

static bool is_named(const struct node *n, const struct node_link *l)
{
	return l->option_addr[0] != '\0' || raft_conf_find_name(&n->conf, l->name);
}

/* Who was removed is told so over the link that led to it, if it can be reached at all. */
static void linger_removed(struct node *n)
{
	for (size_t i = 0; i < n->link_count; i++) {
		struct node_link *l = &n->links[i];
		if (l->conf_addr[0] == '\0' || raft_conf_find_name(&n->conf, l->name))
			continue;
		l->conf_addr[0] = '\0';
		l->keep_until_ms = n->now + LINGER_MS;
	}
}

/* Returns when the next one is due. */
static uint64_t drop_unnamed(struct node *n)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < n->link_count;) {
		struct node_link *l = &n->links[i];
		if (is_named(n, l) || n->now < l->keep_until_ms) {
			if (!is_named(n, l))
				next = node_sooner(next, l->keep_until_ms);
			i++;
			continue;
		}
		net_peers_drop(n->net, l->name);
		*l = n->links[--n->link_count];
	}
	return next;
}

void node_links_refresh(struct node *n)
{
	if (!n->net || n->conf.count == 0)
		return;
	for (uint32_t i = 0; i < n->conf.count; i++) {
		const struct raft_server *s = &n->conf.servers[i];
		if (s->id == n->self.incarnation)
			continue;
		struct node_link *l = link_add(n, s->name);
		if (!l || strcmp(l->conf_addr, s->addr) == 0)
			continue; /* what it said of itself since stays */
		snprintf(l->conf_addr, sizeof(l->conf_addr), "%s", s->addr);
		link_dial(n, l, s->addr);
	}
	linger_removed(n);
}

void node_links_note(struct node *n, const struct net_hello *h, bool leads)
{
	const struct raft_server *s = raft_conf_find_name(&n->conf, h->name);
	if (s && s->id != h->incarnation && !leads)
		return; /* the name with another disk: nobody we know */
	/* Someone without a place in the configuration is dialled back only if it leads, or may be about to give us a
	 * configuration: the ones a new server reads in the log are older than the leader may be. */
	const bool answers = leads || n->conf.count == 0;
	struct node_link *l = (s || answers) ? link_add(n, h->name) : node_links_find(n, h->name);
	if (!l)
		return;
	if (answers)
		l->keep_until_ms = n->now + KEEP_LEADER_MS;
	l->incarnation = h->incarnation;
	if (h->addr[0] != '\0')
		link_dial(n, l, h->addr);
}

/* Where else this server may be; NULL: nowhere. */
static const char *other_address(const struct node_link *l)
{
	const char *const other = strcmp(l->addr, l->conf_addr) == 0 ? l->option_addr : l->conf_addr;
	return other[0] != '\0' && strcmp(other, l->addr) != 0 ? other : NULL;
}

const struct net_hello *node_links_heard(const struct node *n, const struct raft_server *s)
{
	for (size_t i = 0; i < n->link_count; i++) {
		const struct node_link *l = &n->links[i];
		if (strcmp(l->name, s->name) == 0 && l->heard.name[0] != '\0' && l->heard.incarnation == s->id)
			return &l->heard;
	}
	return NULL;
}

void node_links_on_up(struct node *n, const struct node_event *ev)
{
	struct node_link *l = node_links_find(n, ev->peer);
	if (!l)
		return; /* dropped meanwhile */
	l->heard = ev->hello;
	l->down_why = 0;
	node_gate_recount(n);
}

void node_links_on_down(struct node *n, const struct node_event *ev)
{
	struct node_link *l = node_links_find(n, ev->peer);
	if (!l)
		return;
	l->down_why = ev->why;
	l->dialled_ms = n->now;
	snprintf(l->down_text, sizeof(l->down_text), "%s", ev->why_text);
}

uint64_t node_links_turn(struct node *n)
{
	if (!n->net)
		return UINT64_MAX;
	uint64_t next = drop_unnamed(n);
	for (size_t i = 0; i < n->link_count; i++) {
		struct node_link *l = &n->links[i];
		const char *other = other_address(l);
		if (!other)
			continue;
		if (net_peers_is_up(n->net, l->name))
			l->dialled_ms = n->now; /* counted from when it was last up */
		else if (n->now >= l->dialled_ms + OTHER_ADDRESS_MS)
			link_dial(n, l, other);
		next = node_sooner(next, l->dialled_ms + OTHER_ADDRESS_MS);
	}
	return next;
}

const char *node_links_name(const struct node *n, node_id id)
{
	const struct raft_server *s = raft_conf_find(&n->conf, id);
	if (s)
		return s->name;
	for (size_t i = 0; i < n->link_count; i++) {
		if (n->links[i].incarnation == id)
			return n->links[i].name;
	}
	return NULL;
}

node_id node_links_id(const struct node *n, const char *name)
{
	const struct raft_server *s = raft_conf_find_name(&n->conf, name);
	return s ? s->id : 0;
}

bool node_send_msg(struct node *n, const struct raft_msg *m)
{
	const char *name = node_links_name(n, m->to);
	if (!name || !n->net || !net_peers_is_up(n->net, name))
		return false; /* lost, as any message may be: encoding it would be for nothing */
	wire_put_msg(&n->wire, n->self.cluster_id, m);
	size_t count;
	const struct net_piece *pieces = wire_pieces(&n->wire, &count);
	return net_peers_send(n->net, name, WIRE_RAFT, pieces, count);
}

bool node_send_record(struct node *n, const char *to, uint16_t type, const struct record_type *t, const void *rec)
{
	if (!n->net)
		return false;
	wire_put_record(&n->wire, t, rec);
	size_t count;
	const struct net_piece *pieces = wire_pieces(&n->wire, &count);
	return net_peers_send(n->net, to, type, pieces, count);
}
