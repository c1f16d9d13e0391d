/* net/accept.h - the listening side of the cluster port: incoming links from their hello on.
 *
 * Whoever connects has NET_ACCEPT_HELLO_MS to finish the hello; at most NET_ACCEPT_UNFINISHED_MAX may be in it at once
 * (the oldest makes room), so strangers cost a bounded number of descriptors and no memory worth naming. A link of
 * purpose "forward" leaves this module with its hello. A peer that dials again replaces its older link: it would not
 * dial if that one were good.
 * Thread: the loop's.
 */
#ifndef NET_ACCEPT_H
#define NET_ACCEPT_H

#include "net/hello.h"

struct ev_loop;
struct net_acceptor;

#define NET_ACCEPT_HELLO_MS 3000
#define NET_ACCEPT_UNFINISHED_MAX 32
#define NET_ACCEPT_PEERS_MAX 64 /* links past the hello; a cluster has at most 16 nodes */

struct net_accept_hooks {
	void *arg;
	/* See net_hooks of net/peers.h. */
	void (*on_frame)(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
	                 size_t len);
	void (*on_forward)(void *arg, const struct net_hello *from, struct net_stream stream);
	/* A link was closed for what it said or did not say. `who`: its name when known, else where it came from. */
	void (*on_misfit)(void *arg, const char *who, const struct err *why);
};

/* Takes `listen_fd`. The identity is copied but for secrets and TLS. The loop must be of EVBACKEND_POLL: a descriptor
 * that is given away belongs to another thread, and epoll would keep it, report it here and have libev touch it once
 * more. There are a few dozen descriptors at most in such a loop, so poll costs no more. */
struct net_acceptor *net_acceptor_new(struct ev_loop *loop, int listen_fd, const struct net_identity *id,
                                      const struct net_accept_hooks *hooks);
void net_acceptor_free(struct net_acceptor *a);                                   /* accepts NULL */
void net_acceptor_set_self(struct net_acceptor *a, const struct net_hello *self); /* for hellos from here on */
/* Takes a connected descriptor as if it had come in through the port: for tests. */
void net_acceptor_add(struct net_acceptor *a, int fd);

#endif /* NET_ACCEPT_H */
