/* net/addr.h - host:port texts, name look-ups and listening sockets.
 *
 * A host is a name, an IPv4 address or an IPv6 address in brackets: "node1:7943", "10.0.0.1:7943", "[::1]:7943".
 * Thread: any; net_resolve and net_listen may wait for a name server, so they are for boot and the work pool.
 */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/peers.h" /* NET_ADDR_MAX */

#define NET_HOST_MAX 253 /* bytes of a host, brackets not counted: the longest DNS name */
#define NET_RESOLVED_MAX 8

struct net_addr {
	char host[NET_HOST_MAX + 1]; /* without brackets, lower case */
	uint16_t port;               /* never 0 */
};

/* What net_resolve found, in the order to try. */
struct net_resolved {
	size_t count;
	struct {
		struct sockaddr_storage addr;
		socklen_t len;
	} items[NET_RESOLVED_MAX];
};

/* ERR_INVALID with what is wrong: no port, port 0 or above 65535, an empty or impossible host. */
MUST_CHECK int net_addr_parse(const char *text, struct net_addr *out, struct err *e);
void net_addr_format(const struct net_addr *a, char out[NET_ADDR_MAX + 1]); /* with brackets where they belong */
bool net_addr_equal(const struct net_addr *a, const struct net_addr *b);
bool net_addr_is_loopback(const struct net_addr *a); /* 127.0.0.0/8, ::1, "localhost" */
bool net_addr_is_wildcard(const struct net_addr *a); /* 0.0.0.0, :: and their other spellings */
bool net_addr_is_numeric(const struct net_addr *a);  /* an IP address: net_resolve asks nobody */

/* ERR_NOTFOUND with the resolver's words. */
MUST_CHECK int net_resolve(const struct net_addr *a, struct net_resolved *out, struct err *e);

/* A bound, listening, non-blocking descriptor; SO_REUSEADDR, never SO_REUSEPORT (it would hide a taken port).
 * ERR_INVALID: no such address on this machine. ERR_BUSY: taken, ERR_SYSTEM: not permitted and the like. */
MUST_CHECK int net_listen(const char *addr, int *out, struct err *e);

/* "1.2.3.4:5" of a connected descriptor's other end, for log lines; "?" when the kernel does not say. */
void net_peer_text(int fd, char out[NET_ADDR_MAX + 1]);

#endif /* NET_ADDR_H */
