/* What net tells this node waits here until the turn that ticks raft: a node that was stopped for ten seconds must know
 * so before it believes the first answer it reads. Frames are hostile until they decode, name this node's incarnation
 * and come from this node's cluster. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"

/* ---- net's hooks: note, do nothing ---- */

static struct node_event *inbox_add(struct node *n, enum node_event_kind kind)
{
	struct node_inbox *in = &n->inbox;
	if (in->count == in->cap) {
		in->cap = in->cap ? in->cap * 2 : 32;
		in->events = mem_realloc(in->events, in->cap * sizeof(*in->events));
	}
	struct node_event *ev = &in->events[in->count++];
	memset(ev, 0, sizeof(*ev));
	ev->kind = kind;
	return ev;
}

static void on_up(void *arg, const char *peer, const struct net_hello *hello)
{
	struct node_event *ev = inbox_add(arg, NODE_EVENT_UP);
	ev->hello = *hello;
	memcpy(ev->peer, peer, strnlen(peer, NET_NAME_MAX));
}

static void on_down(void *arg, const char *peer, bool refused, const struct err *why)
{
	struct node_event *ev = inbox_add(arg, NODE_EVENT_DOWN);
	ev->refused = refused;
	ev->why = why->code;
	snprintf(ev->why_text, sizeof(ev->why_text), "%.*s", (int)sizeof(ev->why_text) - 1, why->msg);
	memcpy(ev->peer, peer, strnlen(peer, NET_NAME_MAX));
}

static void on_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	struct node_event *ev = inbox_add(arg, NODE_EVENT_FRAME);
	ev->hello = *from;
	ev->type = type;
	ev->slab = slab_ref(slab);
	ev->body = body;
	ev->len = len;
}

struct net_hooks node_net_hooks(struct node *n)
{
	return (struct net_hooks){ .arg = n, .on_up = on_up, .on_down = on_down, .on_frame = on_frame };
}

/* ---- the turn ---- */

void node_bad_frame(struct node *n, const struct node_event *ev, const char *why)
{
	char peer[2 * NET_NAME_MAX];
	if (log_allow(&n->inbox.bad_frame, NODE_QUIET_MS))
		log_warn("peer.bad_frame", "peer=%s type=%u bytes=%zu reason=\"%s\"",
		         log_quote(peer, sizeof(peer), ev->hello.name, strlen(ev->hello.name)), ev->type, ev->len, why);
}

static void refuse_cluster(struct node *n, const struct node_event *ev, uint64_t cluster_id)
{
	if (log_allow(&n->inbox.other_cluster, NODE_QUIET_MS))
		log_warn("peer.other_cluster", "peer=%s its=%016" PRIx64 " ours=%016" PRIx64, ev->hello.name,
		         cluster_id, n->self.cluster_id);
}

/* A message that names our incarnation comes from a cluster whose configuration holds us. Its id is written down before
 * anything of that cluster: the log thread works in order. */
static void adopt_cluster(struct node *n, const struct node_event *ev, uint64_t cluster_id)
{
	n->self.cluster_id = cluster_id;
	log_info("node.cluster", "cluster=%016" PRIx64 " told_by=%s", cluster_id, ev->hello.name);
	node_log_put_identity(n);
	node_announce(n);
}

static void on_raft_frame(struct node *n, const struct node_event *ev)
{
	struct err e = { 0 };
	uint64_t cluster_id;
	struct raft_msg m;
	arena_reset(&n->scratch);
	if (wire_get_msg(ev->slab, ev->body, ev->len, &n->scratch, &cluster_id, &m, &e) != 0) {
		node_bad_frame(n, ev, e.msg);
		return;
	}
	if (cluster_id == 0 || m.from != ev->hello.incarnation) {
		node_bad_frame(n, ev, cluster_id == 0 ? "no cluster id" : "in another's name");
		return;
	}
	if (m.to != n->self.incarnation && !SIM_FAULT("wiped-voter-counted")) {
		log_debug("peer.for_another", "peer=%s",
		          ev->hello.name); /* for whoever had this name and another disk */
		return;
	}
	if (n->self.cluster_id == 0)
		adopt_cluster(n, ev, cluster_id);
	if (n->self.cluster_id != cluster_id) {
		refuse_cluster(n, ev, cluster_id);
		return;
	}
	node_links_note(n, &ev->hello, m.type == RAFT_MSG_APPEND || m.type == RAFT_MSG_SNAPSHOT);
	if (node_room_drops(n, &m))
		return; /* as if it were lost; the leader sends it again */
	raft_step(n->raft, &m);
}

static void on_frame_event(struct node *n, const struct node_event *ev)
{
	switch (ev->type) {
	case WIRE_RAFT: on_raft_frame(n, ev); break;
	case WIRE_PROBE: node_bootstrap_on_probe(n, ev); break;
	case WIRE_PROBE_REPLY: node_bootstrap_on_reply(n, ev); break;
	case WIRE_REGISTER: node_register_on_frame(n, ev); break;
	case WIRE_REGISTER_REPLY: node_register_on_reply(n, ev); break;
	case WIRE_JOIN: node_join_on_frame(n, ev); break;
	case WIRE_JOIN_REPLY: node_join_on_reply(n, ev); break;
	default: node_bad_frame(n, ev, "unknown type"); break;
	}
}

static void on_up_event(struct node *n, const struct node_event *ev)
{
	node_links_on_up(n, ev);
	node_join_on_up(n, ev);
	if (node_links_is_probe(ev->peer))
		return;
	if (strcmp(ev->peer, ev->hello.name) != 0) {
		char name[2 * NET_NAME_MAX];
		log_warn("peer.other_name", "peer=%s answers_as=%s remedy=\"correct --peers\"", ev->peer,
		         log_quote(name, sizeof(name), ev->hello.name, strlen(ev->hello.name)));
		return;
	}
	node_links_note(n, &ev->hello, false);
	node_bootstrap_on_up(n);
}

static void on_down_event(struct node *n, const struct node_event *ev)
{
	node_links_on_down(n, ev);
	const node_id id = node_links_id(n, ev->peer);
	if (id != 0)
		raft_peer_lost(n->raft, id, ev->refused);
}

static void on_event(struct node *n, const struct node_event *ev)
{
	switch (ev->kind) {
	case NODE_EVENT_FRAME: on_frame_event(n, ev); break;
	case NODE_EVENT_UP: on_up_event(n, ev); break;
	case NODE_EVENT_DOWN: on_down_event(n, ev); break;
	}
}

void node_inbox_drain(struct node *n)
{
	/* Sending may break a link, and then net calls a hook: by index, since the array may move. */
	for (size_t i = 0; i < n->inbox.count; i++) {
		const struct node_event ev = n->inbox.events[i];
		on_event(n, &ev);
		slab_unref(ev.slab);
	}
	n->inbox.count = 0;
}

void node_inbox_discard(struct node *n)
{
	for (size_t i = 0; i < n->inbox.count; i++)
		slab_unref(n->inbox.events[i].slab);
	n->inbox.count = 0;
}
