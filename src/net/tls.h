/* net/tls.h - certificates, and the TLS of one connection.
 *
 * A struct net_tls holds a certificate with its key and, between nodes, the authority that signed everybody's: then
 * each side asks for the other's certificate. It may be loaded anew at any time; connections keep what they began with.
 * TLS 1.2 and 1.3, ciphers with forward secrecy and authentication of the data, no renegotiation, no compression.
 *
 * A session never waits: the handshake goes on within recv and send, and either may have to wait for the other
 * direction of the socket, which `read_wants` and `write_wants` of the session say. It has no time limit of its own:
 * its owner has one from the connection's first moment. It writes by write(2): the process ignores SIGPIPE.
 * Ownership: a session belongs to its stream (net/stream.h).   Thread: struct net_tls any; a session, one at a time.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct net_tls;
struct net_tls_session;

enum net_direction { NET_READ = 1, NET_WRITE = 2 }; /* bits; libev's own */

/* Paths of PEM files; ca NULL: the other side is not asked who it is. */
struct net_tls_files {
	const char *cert, *key, *ca;
};

/* ERR_INVALID with the file's name and what is wrong with it: unreadable, no PEM, a key of another certificate. The
 * files' names are copied. */
MUST_CHECK int net_tls_new(const struct net_tls_files *files, struct net_tls **out, struct err *e);
void net_tls_free(struct net_tls *t); /* sessions may still live; accepts NULL */
/* Reads the files again, for sessions from here on. After an error what was loaded before stays. */
MUST_CHECK int net_tls_reload(struct net_tls *t, struct err *e);
bool net_tls_is_mutual(const struct net_tls *t); /* it asks for certificates */
/* Does the own certificate name this node or its address, as others will check it? */
bool net_tls_names_self(struct net_tls *t, const char *id, const char *host);

/* Over a connected, non-blocking descriptor, which stays the caller's. NULL: no memory for it. */
struct net_tls_session *net_tls_session_new(struct net_tls *t, int fd, bool is_client);
void net_tls_session_free(struct net_tls_session *s); /* says goodbye if that does not wait; accepts NULL */

/* > 0 bytes moved, 0 would wait, -ENODATA the end of the stream, -EPROTO the other side breaks TLS or is not believed
 * (net_tls_session_why), else -errno. After an error each further call repeats it. */
ssize_t net_tls_session_recv(struct net_tls_session *s, void *p, size_t n);
/* What waited has to be offered again: the same bytes first, at least as many. */
ssize_t net_tls_session_send(struct net_tls_session *s, const void *p, size_t n);
void net_tls_session_end(struct net_tls_session *s); /* nothing more will be sent */

enum net_direction net_tls_session_read_wants(const struct net_tls_session *s);
enum net_direction net_tls_session_write_wants(const struct net_tls_session *s);
/* Bytes may wait that the socket no longer holds: recv again before waiting for it. */
bool net_tls_session_has_more(const struct net_tls_session *s);
const char *net_tls_session_why(const struct net_tls_session *s); /* a sentence about -EPROTO */
bool net_tls_session_is_http(const struct net_tls_session *s);    /* -EPROTO, and what came was plain HTTP */

/* True: the other side showed a certificate, signed by our authority, that names `id` or `host` (either NULL: not
 * looked for). The handshake is over. */
bool net_tls_session_names(const struct net_tls_session *s, const char *id, const char *host);
bool net_tls_session_is_mutual(const struct net_tls_session *s);

#endif /* NET_TLS_H */
