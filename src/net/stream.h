/* net/stream.h - the bytes of one connection, plain or under TLS: whoever reads and writes does not know which.
 *
 * A plain stream is its descriptor and costs nothing more than the system calls. Under TLS the two directions may wait
 * for each other (a handshake) and bytes may wait that the descriptor no longer shows; hence three questions that a
 * loop asks: what to wait for (net_stream_waits), what may go on now (net_stream_ready), is there more to read before
 * waiting at all (net_stream_has_more).
 * Ownership: who holds the struct owns the descriptor and the session; passing it by value passes it on.
 * Thread: one at a time.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"
#include "net/tls.h"

struct net_stream {
	int fd;                      /* connected, non-blocking; -1 = none */
	struct net_tls_session *tls; /* NULL = plain */
};

static inline struct net_stream net_stream_plain(int fd)
{
	return (struct net_stream){ .fd = fd };
}

/* Takes `fd`, puts TLS over it (`tls` NULL: none). ERR_NOMEM: the descriptor is closed. */
MUST_CHECK int net_stream_open(struct net_tls *tls, int fd, bool is_client, struct net_stream *out, struct err *e);
void net_stream_close(struct net_stream *s); /* may run twice */

/* > 0 bytes moved, 0 would block, -ENODATA the end of the stream, else -errno; -EPROTO: net_stream_why. No signal. */
ssize_t net_stream_recv(struct net_stream *s, void *p, size_t n);
ssize_t net_stream_send(struct net_stream *s, const void *p, size_t n);
/* Fills and takes several pieces. What would block has to be offered again from its first byte. */
ssize_t net_stream_recvv(struct net_stream *s, const struct iovec *iov, size_t count);
ssize_t net_stream_sendv(struct net_stream *s, const struct iovec *iov, size_t count);
/* Nothing more is sent; what comes may still be read. False: the connection is gone. */
bool net_stream_shutdown(struct net_stream *s);

/* Bits of enum net_direction: what to wait for when reading, writing or both are wanted; and what is worth a try now
 * that the descriptor is ready for `events`. */
int net_stream_waits(const struct net_stream *s, bool reads, bool writes);
int net_stream_ready(const struct net_stream *s, int events);
bool net_stream_has_more(const struct net_stream *s);

const char *net_stream_why(const struct net_stream *s); /* a sentence about -EPROTO */
/* Was it plain HTTP that came where TLS was due? Then true, and the stream is a plain one from here on, with the first
 * bytes lost: good for an answer that says so. */
bool net_stream_fall_back(struct net_stream *s);

#endif /* NET_STREAM_H */
