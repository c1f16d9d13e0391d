/* net/dial.h - outgoing links that are kept: look up, connect, hello, and again when it broke.
 *
 *   waiting -> looking up -> connecting (each address in turn) -> hello -> up
 *      ^            |                 |                            |       |
 *      +---- 50-150 ms at first, doubling up to 333-999 ms --------+-------+
 *
 * The name is looked up anew each time; when that fails, the addresses found last are tried. A struct net_dialler is
 * what the dials of one thread share.
 * Thread: the loop's.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include "net/hello.h"
#include "net/link.h"

struct pool;
struct net_dialler;
struct net_dial;

struct net_dialler *net_dialler_new(struct ev_loop *loop, struct pool *pool, const struct net_identity *id);
void net_dialler_free(struct net_dialler *m);                                   /* its dials were freed; accepts NULL */
void net_dialler_set_self(struct net_dialler *m, const struct net_hello *self); /* for hellos from here on */

/* A hook may free its dial. None is called from within net_dial_new and net_dial_free. */
struct net_dial_hooks {
	void *arg;
	void (*on_up)(void *arg, struct net_dial *d, const struct net_hello *hello);
	/* An attempt failed or the link broke; refused: its address refuses connections. News: it was up, this is the
	 * first attempt, or `refused` changed. A code of ERR_IDENTITY, ERR_VERSION, ERR_CORRUPT or ERR_TOO_LARGE is
	 * about what the other side said (net_is_misfit). */
	void (*on_failed)(void *arg, struct net_dial *d, bool is_news, bool refused, const struct err *why);
	/* A frame on a link that is up; see net_link_hooks. */
	void (*on_frame)(void *arg, struct net_dial *d, uint16_t type, struct slab *slab, const uint8_t *body,
	                 size_t len);
};

bool net_is_misfit(const struct err *why);

/* Dials at the loop's next turn. ERR_INVALID: not a host:port. */
MUST_CHECK int net_dial_new(struct net_dialler *m, const char *addr, enum net_purpose purpose,
                            const struct net_dial_hooks *hooks, struct net_dial **out, struct err *e);
void net_dial_free(struct net_dial *d);                   /* accepts NULL */
struct net_link *net_dial_link(const struct net_dial *d); /* NULL: not up */
const char *net_dial_addr(const struct net_dial *d);      /* as given */

#endif /* NET_DIAL_H */
