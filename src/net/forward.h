/* net/forward.h - an http thread's own link to the leader, and the frames on it.
 *
 * Forwarded requests never pass through the consensus thread: each http thread of a follower dials the leader's
 * cluster port with purpose "forward"; after the hello the leader's consensus thread gives the accepted descriptor to
 * one of its http threads (net_hooks.on_forward), which puts a struct net_link over it. Answers come in any order.
 *
 *   follower's http thread                          leader's http thread
 *   net_forward_send(f, id, request)  ---------->   on_frame(NET_FORWARD_REQUEST): net_forward_parse, run it
 *   on_answer(id, answer)             <----------   net_forward_answer(link, id, answer)
 *
 * When the link goes down, what was sent and not answered has an unknown outcome: its bytes may have left. It is never
 * sent again here.
 * Thread: the loop's.
 */
#ifndef NET_FORWARD_H
#define NET_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "net/link.h"
#include "net/peers.h"

/* Frame types; a body starts with the request id (u64, little-endian), the rest is the caller's. */
enum net_forward_type {
	NET_FORWARD_REQUEST = 1,
	NET_FORWARD_ANSWER = 2,
};

#define NET_FORWARD_PIECES_MAX 16 /* pieces of one request or answer */

struct net_forward;

struct net_forward_hooks {
	void *arg;
	void (*on_up)(void *arg); /* the hello is done: requests may be sent */
	/* Answer to request `id`. `slab` holds `body`: borrowed for the call, take a count to keep it. */
	void (*on_answer)(void *arg, uint64_t id, struct slab *slab, const uint8_t *body, size_t len);
	/* The link is gone, or there is none yet and an attempt failed: once per change, not per attempt. It redials by
	 * itself as long as it has a target. Not called from net_forward_target and net_forward_free. */
	void (*on_down)(void *arg, bool refused);
};

struct net_forward_options {
	struct ev_loop *loop;
	struct pool *pool;          /* name look-ups */
	struct net_hello self;      /* copied */
	struct net_secrets secrets; /* what they point at is borrowed until net_forward_free, */
	struct net_tls *tls;        /* and so is this; NULL = plain */
	struct net_forward_hooks hooks;
};

struct net_forward *net_forward_new(const struct net_forward_options *o);
void net_forward_free(struct net_forward *f); /* accepts NULL */

void net_forward_set_self(struct net_forward *f, const struct net_hello *self); /* for hellos from here on */

/* Where the leader listens (its cluster address); "" = nobody. Another address than before ends the link: the caller
 * treats what it sent and has no answer for as after on_down. The same address changes nothing. */
void net_forward_target(struct net_forward *f, const char *addr);
bool net_forward_is_up(const struct net_forward *f);

/* False: no link, or too much waits in it. Then nothing of the request has left or will leave this process. */
bool net_forward_send(struct net_forward *f, uint64_t id, const struct net_piece *pieces, size_t count);

/* ---- the leader's side, over a link of its own ---- */

/* Splits a frame's body; false: too short to hold an id. */
bool net_forward_parse(const uint8_t *body, size_t len, uint64_t *id, const uint8_t **rest, size_t *rest_len);
/* As net_link_send. */
bool net_forward_answer(struct net_link *l, uint64_t id, const struct net_piece *pieces, size_t count);

#endif /* NET_FORWARD_H */
