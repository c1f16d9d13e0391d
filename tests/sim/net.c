/* The network, linked instead of src/net: implements net/peers.h over the world's events.
 *
 * A link goes from a dialler to a listener and carries frames one way. It comes up some time after both sides can reach
 * each other and breaks when a process dies; while a cut lies between them frames vanish and nobody is told, as on a
 * real network. Each frame is lost, doubled or delayed by itself. */
#include "net/peers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim.h"

#define LINKS_MAX 16
#define DIAL_MIN_US 1000
#define DIAL_MAX_US 60000
#define TCP_TIMEOUT_US 3000000 /* a cut link is noticed after this long */

struct link {
	bool used;
	bool up;
	bool told_down;
	char name[NET_NAME_MAX + 1];
	char addr[NET_ADDR_MAX + 1];
	int peer;            /* node behind addr; -1 = nobody has that address */
	uint64_t generation; /* moves with each life of the link: old frames and dials are stale */
};

struct net_peers {
	int node;
	struct net_options o;
	struct net_hello self;
	struct link links[LINKS_MAX];
};

static uint64_t generations;

static struct net_peers *net_of(int node)
{
	return node >= 0 && w.nodes[node].node ? w.nodes[node].net : NULL;
}

static int node_at(const char *addr)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		if (strcmp(w.nodes[i].addr, addr) == 0)
			return i;
	}
	return -1;
}

static bool can_reach(int from, int to)
{
	return !w.cut[from][to] && !w.cut[to][from];
}

static void tell_down(struct net_peers *n, struct link *l, bool refused)
{
	l->up = false;
	if (l->told_down)
		return;
	l->told_down = true;
	world_trace("net %s>%s down%s", w.nodes[n->node].name, l->name, refused ? " refused" : "");
	const struct err why = { .code = refused ? ERR_IO : ERR_CLOSED, .msg = "link down" };
	n->o.hooks.on_down(n->o.hooks.arg, l->name, refused, &why);
}

static void dial(uint64_t node, uint64_t generation, void *p);

static void dial_later(struct net_peers *n, struct link *l)
{
	l->generation = ++generations;
	world_at(DIAL_MIN_US + world_draw(DIAL_MAX_US - DIAL_MIN_US), dial, (uint64_t)n->node, l->generation,
	         (void *)(uintptr_t)(l - n->links));
}

static struct link *live_link(struct net_peers *n, uint64_t generation, void *slot)
{
	struct link *l = n ? &n->links[(uintptr_t)slot] : NULL;
	return l && l->used && l->generation == generation ? l : NULL;
}

static void dial(uint64_t node, uint64_t generation, void *p)
{
	struct net_peers *n = net_of((int)node);
	struct link *l = live_link(n, generation, p);
	if (!l || l->up)
		return;
	w.current = (int)node;
	l->peer = node_at(l->addr);
	struct net_peers *to = l->peer >= 0 && can_reach(n->node, l->peer) ? net_of(l->peer) : NULL;
	const bool same_cluster =
	    to && (!to->self.cluster_id || !n->self.cluster_id || to->self.cluster_id == n->self.cluster_id);
	if (!same_cluster) {
		/* A dead process' kernel refuses; a cut swallows. */
		tell_down(n, l, l->peer >= 0 && can_reach(n->node, l->peer) && !to);
		dial_later(n, l);
		return;
	}
	l->up = true;
	l->told_down = false;
	world_trace("net %s>%s up", w.nodes[n->node].name, l->name);
	const struct net_hello hello = to->self;
	n->o.hooks.on_up(n->o.hooks.arg, l->name, &hello);
}

/* ---- frames ---- */

struct frame {
	int from, to;
	uint64_t to_run;
	struct net_hello hello;
	uint16_t type;
	struct slab *slab;
};

static void free_frame(struct frame *f)
{
	slab_unref(f->slab);
	mem_free(f);
}

static void deliver(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	struct frame *f = p;
	struct net_peers *to = net_of(f->to);
	const bool lost = !to || w.nodes[f->to].run != f->to_run || w.cut[f->from][f->to] || disk_is_mute(f->to);
	if (lost) {
		free_frame(f);
		return;
	}
	w.current = f->to;
	world_trace("frame %s>%s type=%u len=%zu", w.nodes[f->from].name, w.nodes[f->to].name, f->type, f->slab->len);
	to->o.hooks.on_frame(to->o.hooks.arg, &f->hello, f->type, f->slab, f->slab->data, f->slab->len);
	free_frame(f);
	wake_signal(node_wake(w.nodes[w.current].node));
}

static void send_one(struct net_peers *n, const struct link *l, uint16_t type, struct slab *slab)
{
	struct frame *f = mem_zalloc(sizeof(*f));
	f->from = n->node;
	f->to = l->peer;
	f->to_run = w.nodes[l->peer].run;
	f->hello = n->self;
	f->type = type;
	f->slab = slab_ref(slab);
	world_at(20 + world_draw(w.healing ? 2000 : w.plan.delay_max_us + 1), deliver, 0, 0, f);
}

bool net_peers_send(struct net_peers *n, const char *name, uint16_t type, const struct net_piece *pieces, size_t count)
{
	struct link *l = NULL;
	for (int i = 0; i < LINKS_MAX; i++) {
		if (n->links[i].used && n->links[i].up && strcmp(n->links[i].name, name) == 0)
			l = &n->links[i];
	}
	if (!l)
		return false;
	size_t len = 0;
	for (size_t i = 0; i < count; i++)
		len += pieces[i].len;
	assert(len <= NET_FRAME_MAX);
	if (disk_is_mute(n->node))
		return true; /* it died: nobody hears this */
	struct slab *slab = slab_new(len);
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].len)
			memcpy(slab->data + slab->len, pieces[i].p, pieces[i].len);
		slab->len += pieces[i].len;
	}
	promise_frame(n->node, type, slab);
	if (!w.healing && world_draw(1000) < w.plan.loss_per_mille) {
		slab_unref(slab);
		return true;
	}
	send_one(n, l, type, slab);
	if (!w.healing && world_draw(1000) < w.plan.dup_per_mille)
		send_one(n, l, type, slab);
	slab_unref(slab);
	return true;
}

/* ---- the rest of peers.h ---- */

struct net_peers *net_peers_new(const struct net_options *o)
{
	struct net_peers *n = mem_zalloc(sizeof(*n));
	n->node = w.current;
	n->o = *o;
	n->self = o->self;
	return n;
}

void net_peers_free(struct net_peers *n)
{
	mem_free(n);
}

void net_peers_set_self(struct net_peers *n, const struct net_hello *self)
{
	n->self = *self;
}

void net_peers_set(struct net_peers *n, const char *name, const char *addr)
{
	struct link *free_slot = NULL;
	for (int i = 0; i < LINKS_MAX; i++) {
		struct link *l = &n->links[i];
		if (!l->used) {
			free_slot = free_slot ? free_slot : l;
		} else if (strcmp(l->name, name) == 0) {
			if (strcmp(l->addr, addr) == 0)
				return;
			free_slot = l;
			break;
		}
	}
	assert(free_slot);
	*free_slot = (struct link){ .used = true, .peer = -1 };
	snprintf(free_slot->name, sizeof(free_slot->name), "%s", name);
	snprintf(free_slot->addr, sizeof(free_slot->addr), "%s", addr);
	dial_later(n, free_slot);
}

void net_peers_drop(struct net_peers *n, const char *name)
{
	for (int i = 0; i < LINKS_MAX; i++) {
		if (n->links[i].used && strcmp(n->links[i].name, name) == 0)
			n->links[i].used = false;
	}
}

bool net_peers_is_up(const struct net_peers *n, const char *name)
{
	for (int i = 0; i < LINKS_MAX; i++) {
		if (n->links[i].used && n->links[i].up && strcmp(n->links[i].name, name) == 0)
			return true;
	}
	return false;
}

/* ---- for the world ---- */

void net_reset(void)
{
	generations = 0;
}

void net_node_up(int node)
{
	(void)node; /* others' dials find it by themselves */
}

/* The connection is reset some moments after the process is gone; the redial is refused. */
static void break_link(uint64_t node, uint64_t generation, void *p)
{
	struct net_peers *n = net_of((int)node);
	struct link *l = live_link(n, generation, p);
	if (!l || !l->up)
		return;
	w.current = (int)node;
	const bool refused = l->peer >= 0 && can_reach(n->node, l->peer) && !net_of(l->peer);
	tell_down(n, l, refused);
	dial_later(n, l);
	wake_signal(node_wake(w.nodes[node].node));
}

static void break_links_to(int node, uint64_t delay_us)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		struct net_peers *n = i == node ? NULL : net_of(i);
		for (int k = 0; n && k < LINKS_MAX; k++) {
			struct link *l = &n->links[k];
			if (l->used && l->up && l->peer == node)
				world_at(delay_us + world_draw(2000), break_link, (uint64_t)i, l->generation,
				         (void *)(uintptr_t)k);
		}
	}
}

void net_node_down(int node)
{
	break_links_to(node, 100);
}

void net_breathe(void)
{
	for (int from = 0; from < w.plan.nodes; from++) {
		struct net_peers *n = net_of(from);
		for (int k = 0; n && k < LINKS_MAX; k++) {
			struct link *l = &n->links[k];
			if (l->used && l->up && l->peer >= 0 && !can_reach(from, l->peer))
				world_at(TCP_TIMEOUT_US, break_link, (uint64_t)from, l->generation,
				         (void *)(uintptr_t)k);
		}
	}
}
