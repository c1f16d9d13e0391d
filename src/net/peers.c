#include "net/peers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/accept.h"
#include "net/dial.h"

#define MISFIT_EVERY_MS 60000 /* one line a minute for each peer that does not fit */
#define MISFITS 32

struct peer {
	struct peer *next;
	struct net_peers *n;
	char name[NET_NAME_MAX + 1];
	struct net_dial *dial;
};

struct net_peers {
	struct net_hooks hooks;
	struct net_dialler *dialler;
	struct net_acceptor *acceptor;
	struct peer *peers;
	/* By a hash of who it is: a stranger can only silence strangers that share its slot. */
	struct log_limit misfits[MISFITS];
};

static void log_misfit(struct net_peers *n, const char *who, const struct err *why)
{
	uint32_t h = 2166136261u;                       /* FNV-1a */
	for (const char *p = who; *p && *p != ':'; p++) /* a stranger's port changes with each attempt */
		h = (h ^ (uint8_t)*p) * 16777619u;
	if (!log_allow(&n->misfits[h % MISFITS], MISFIT_EVERY_MS))
		return;
	char quoted[NET_ADDR_MAX + 1];
	log_warn("peer.refused", "peer=\"%s\" reason=\"%s\"", log_quote(quoted, sizeof(quoted), who, strlen(who)),
	         why->msg);
}

/* ---- dialled links ---- */

static void on_dial_up(void *arg, struct net_dial *d, const struct net_hello *hello)
{
	struct peer *p = arg;
	log_info("peer.up", "peer=%s addr=%s", p->name, net_dial_addr(d));
	p->n->hooks.on_up(p->n->hooks.arg, p->name, hello);
}

static void on_dial_failed(void *arg, struct net_dial *d, bool is_news, bool refused, const struct err *why)
{
	struct peer *p = arg;
	if (net_is_misfit(why))
		log_misfit(p->n, p->name, why);
	if (!is_news)
		return;
	log_info("peer.down", "peer=%s addr=%s refused=%d reason=\"%s\"", p->name, net_dial_addr(d), refused, why->msg);
	p->n->hooks.on_down(p->n->hooks.arg, p->name, refused, why);
}

/* A dialled link only carries this node's frames; the other side has no reason to answer on it. */
static void on_dial_frame(void *arg, struct net_dial *d, uint16_t type, struct slab *slab, const uint8_t *body,
                          size_t len)
{
	(void)arg;
	(void)slab;
	(void)body;
	log_debug("peer.unasked", "addr=%s type=%u bytes=%zu", net_dial_addr(d), type, len);
}

static struct peer **find(struct net_peers *n, const char *name)
{
	struct peer **at = &n->peers;
	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

void net_peers_drop(struct net_peers *n, const char *name)
{
	struct peer **at = find(n, name);
	struct peer *p = *at;
	if (!p)
		return;
	*at = p->next;
	net_dial_free(p->dial);
	mem_free(p);
}

void net_peers_set(struct net_peers *n, const char *name, const char *addr)
{
	assert(name[0] && strlen(name) <= NET_NAME_MAX);
	const struct peer *known = *find(n, name);
	if (known && strcmp(net_dial_addr(known->dial), addr) == 0)
		return;
	net_peers_drop(n, name);

	struct peer *p = mem_zalloc(sizeof(*p));
	p->n = n;
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	const struct net_dial_hooks hooks = {
		.arg = p,
		.on_up = on_dial_up,
		.on_failed = on_dial_failed,
		.on_frame = on_dial_frame,
	};
	struct err e;
	if (net_dial_new(n->dialler, addr, NET_PURPOSE_PEER, &hooks, &p->dial, &e)) {
		/* From a configuration or a record; whoever wrote it there checked it, so it is another release's. */
		log_error("peer.address", "peer=%s reason=\"%s\"", p->name, e.msg);
		mem_free(p);
		return;
	}
	p->next = n->peers;
	n->peers = p;
}

bool net_peers_send(struct net_peers *n, const char *name, uint16_t type, const struct net_piece *pieces, size_t count)
{
	const struct peer *p = *find(n, name);
	struct net_link *l = p ? net_dial_link(p->dial) : NULL;
	return l && net_link_send(l, type, pieces, count);
}

bool net_peers_is_up(const struct net_peers *n, const char *name)
{
	for (const struct peer *p = n->peers; p; p = p->next) {
		if (strcmp(p->name, name) == 0)
			return net_dial_link(p->dial) != NULL;
	}
	return false;
}

/* ---- accepted links ---- */

static void on_accept_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab,
                            const uint8_t *body, size_t len)
{
	struct net_peers *n = arg;
	n->hooks.on_frame(n->hooks.arg, from, type, slab, body, len);
}

static void on_accept_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	struct net_peers *n = arg;
	n->hooks.on_forward(n->hooks.forward_arg, from, stream);
}

static void on_accept_misfit(void *arg, const char *who, const struct err *why)
{
	log_misfit(arg, who, why);
}

/* ---- all ---- */

struct net_peers *net_peers_new(const struct net_options *o)
{
	assert(o->hooks.on_up && o->hooks.on_down && o->hooks.on_frame && o->hooks.on_forward);
	struct net_peers *n = mem_zalloc(sizeof(*n));
	n->hooks = o->hooks;
	const struct net_identity id = { .self = o->self, .secrets = o->secrets, .tls = o->tls };
	const struct net_accept_hooks hooks = {
		.arg = n,
		.on_frame = on_accept_frame,
		.on_forward = on_accept_forward,
		.on_misfit = on_accept_misfit,
	};
	n->dialler = net_dialler_new(o->loop, o->pool, &id);
	n->acceptor = net_acceptor_new(o->loop, o->listen_fd, &id, &hooks);
	return n;
}

void net_peers_free(struct net_peers *n)
{
	if (!n)
		return;
	while (n->peers)
		net_peers_drop(n, n->peers->name);
	net_acceptor_free(n->acceptor);
	net_dialler_free(n->dialler);
	mem_free(n);
}

void net_peers_set_self(struct net_peers *n, const struct net_hello *self)
{
	net_dialler_set_self(n->dialler, self);
	net_acceptor_set_self(n->acceptor, self);
}
