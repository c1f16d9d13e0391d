/* net/link.h - one framed, bounded, non-blocking connection on a libev loop.
 *
 * On the wire a frame is {u32 body length, u16 type, u16 zero}, little-endian, then the body. A frame arrives whole, in
 * a slab of its own, or not at all. Frames sent within one turn of the loop leave together, before the loop blocks;
 * nothing is written and no hook is called inside net_link_send.
 *
 * A link ends by itself (the other side closed, an error, a frame that breaks the rules): on_close is called once, with
 * the reason, and no frame follows it. Or its owner frees it: then no hook is called at all. net_link_free is allowed
 * inside both hooks.
 * Thread: its loop's.
 */
#ifndef NET_LINK_H
#define NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/peers.h" /* struct net_piece, NET_FRAME_MAX */
#include "net/stream.h"

#define NET_LINK_HEADER 8
#define NET_LINK_UNSENT_MAX ((size_t)16 << 20) /* bytes that may wait in one link, headers and bookkeeping counted */

struct ev_loop;
struct net_link;

struct net_link_hooks {
	void *arg;
	/* `slab` holds `body` (both NULL while len is 0): borrowed for the call, take a count to keep it. */
	void (*on_frame)(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len);
	void (*on_close)(void *arg, const struct err *why);
};

/* Takes the stream. Bodies above `frame_max` bytes close the link before anything is allocated. */
struct net_link *net_link_new(struct ev_loop *loop, struct net_stream stream, size_t frame_max,
                              const struct net_link_hooks *hooks);
void net_link_free(struct net_link *l); /* drops what is unsent, closes the stream; accepts NULL */

/* False: the link has ended, or NET_LINK_UNSENT_MAX bytes wait already; then nothing of the frame will leave. The
 * bodies' total is at most NET_FRAME_MAX. */
bool net_link_send(struct net_link *l, uint16_t type, const struct net_piece *pieces, size_t count);
size_t net_link_unsent(const struct net_link *l); /* what waits: 0 when the kernel took every byte */
/* Tries to write now instead of at the turn's end, calls no hook; true: nothing waits any more. For a last word. */
bool net_link_flush(struct net_link *l);

/* While paused nothing more is read: back-pressure. Frames that came with the last read are still delivered. */
void net_link_pause(struct net_link *l, bool paused);
void net_link_set_frame_max(struct net_link *l, size_t frame_max);
void net_link_set_hooks(struct net_link *l, const struct net_link_hooks *hooks);

const struct net_stream *net_link_stream(const struct net_link *l); /* for questions; the link's */

/* Frees the link and gives its stream away; one without a descriptor when that cannot be done cleanly: something is
 * unsent, or bytes of a further frame were read already. */
struct net_stream net_link_release(struct net_link *l);

#endif /* NET_LINK_H */
