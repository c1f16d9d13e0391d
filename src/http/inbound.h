/* http/inbound.h - requests that other servers forward to this one.
 *
 * The consensus thread accepted the link and gave its stream away. Each frame becomes a call that runs through the
 * routing table here; what it may not do again is be forwarded. A link that is closed loses its answers: the other side
 * then answers outcome_unknown.   Thread: its http thread.
 */
#ifndef HTTP_INBOUND_H
#define HTTP_INBOUND_H

#include <stdbool.h>

#include "net/peers.h"

struct http_thread;

#define HTTP_INBOUND_CALLS_MAX 4096 /* of one link; beyond it nothing more is read from it */

struct http_new_link {
	struct net_stream stream;
	char from[NET_NAME_MAX + 1]; /* name the other server gave in its hello */
};

void http_inbound_add(struct http_thread *t, const struct http_new_link *link);
bool http_inbound_is_idle(const struct http_thread *t); /* no call is under way */
void http_inbound_close_all(struct http_thread *t);
void http_inbound_fini(struct http_thread *t);  /* frees all, calls too: nobody holds them any more */
void http_inbound_sweep(struct http_thread *t); /* frees links that ended and owe nothing; at the end of a turn */

#endif /* HTTP_INBOUND_H */
