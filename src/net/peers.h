/* net/peers.h - connections between nodes: dialling, the hello, framed messages.
 *
 * Each node dials every other; a dialled link carries this node's frames to that peer, an accepted one brings theirs.
 * Frames may be lost whole (a link breaks, a queue is full), never torn, never reordered within one link. Every link
 * starts with a hello in both directions: protocol version, cluster id, name, incarnation, purpose, and with a cluster
 * secret a challenge and response (HMAC-SHA256), never the secret. Versions and sizes are checked before anything is
 * allocated.
 * Thread: consensus (its libev loop); hooks are called there. The simulator links its own peers.c.
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "base/pool.h"
#include "net/stream.h"

#define NET_NAME_MAX 63
#define NET_ADDR_MAX 261
#define NET_FRAME_MAX (8u << 20) /* bytes of one frame's body */
#define NET_PROTOCOL 1

struct ev_loop;
struct net_peers;

/* By what nodes prove to each other that they belong together. `previous` is for a rotation: taken from others, and
 * used towards those that do not take the current one. */
struct net_secrets {
	const uint8_t *current, *previous; /* NULL = none */
	size_t current_len, previous_len;
};

/* What one side says of itself in the hello. */
struct net_hello {
	uint64_t cluster_id; /* 0 = none yet */
	node_id incarnation;
	char name[NET_NAME_MAX + 1];
	char addr[NET_ADDR_MAX + 1]; /* advertised cluster address */
	bool empty;                  /* holds no Raft configuration */
	bool learner;                /* --learner: never to be promoted */
	uint32_t entry_types;        /* newest entry type it applies */
};

/* One piece of a frame's body; `slab` (may be NULL: the bytes are copied) keeps `p` alive until it was sent. */
struct net_piece {
	const void *p;
	size_t len;
	struct slab *slab; /* borrowed: the link takes its own count */
};

struct net_hooks {
	void *arg;
	/* A dialled link finished its hello. `peer` is the name it was dialled under. */
	void (*on_up)(void *arg, const char *peer, const struct net_hello *hello);
	/* The dialled link to `peer` is gone or a dial failed; refused: its address actively refuses connections.
	 * Called once per change, not per attempt. ERR_IDENTITY and ERR_VERSION: it answers, and is not one of us. */
	void (*on_down)(void *arg, const char *peer, bool refused, const struct err *why);
	/* A frame from the peer that said `from` in its hello; body lies in `slab` (borrowed for the call; take a count
	 * to keep it). */
	void (*on_frame)(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
	                 size_t len);
	/* An accepted link of purpose "forward" finished its hello: the stream is given away. It goes past the node, so
	 * it has an argument of its own. */
	void (*on_forward)(void *forward_arg, const struct net_hello *from, struct net_stream stream);
	void *forward_arg;
};

struct net_options {
	struct ev_loop *loop; /* of EVBACKEND_POLL, see net/accept.h */
	struct pool *pool;    /* name look-ups */
	int listen_fd;        /* from net_listen (net/addr.h): bound before the data directory is touched; taken */
	struct net_secrets secrets;
	struct net_tls *tls; /* of the links between nodes; NULL = plain */
	struct net_hello self;
	struct net_hooks hooks;
};

/* Accepts as soon as the loop runs, dials nobody yet. Everything in `o` but secrets, TLS, loop and pool is copied;
 * those are borrowed until net_peers_free. */
struct net_peers *net_peers_new(const struct net_options *o);
void net_peers_free(struct net_peers *n); /* accepts NULL */

void net_peers_set_self(struct net_peers *n, const struct net_hello *self); /* for hellos from here on */
/* Dials `name` at `addr` and keeps redialling (random 50-150 ms at first, then up to 1 s; the name is looked up anew
 * each time); a changed address replaces the link. */
void net_peers_set(struct net_peers *n, const char *name, const char *addr);
void net_peers_drop(struct net_peers *n, const char *name);
/* False: no link, or over 16 MiB unsent there (Raft sends again). */
bool net_peers_send(struct net_peers *n, const char *name, uint16_t type, const struct net_piece *pieces, size_t count);
bool net_peers_is_up(const struct net_peers *n, const char *name);

#endif /* NET_PEERS_H */
