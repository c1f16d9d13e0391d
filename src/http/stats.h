/* http/stats.h - what a thread counts. Written by its thread alone, read by any (relaxed atomics): no lock, no sharing.
 */
#ifndef HTTP_STATS_H
#define HTTP_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/prom.h"
#include "http/routes.h"
#include "http/watch.h"

struct http_server;

#define HTTP_STATUS_KINDS 26                    /* statuses this server sends, and one row for others */
#define HTTP_STATS_ROUTES (HTTP_ROUTES_MAX + 1) /* the last row: no route */

struct http_route_stats {
	_Atomic uint64_t by_status[HTTP_STATUS_KINDS];
	struct prom_histogram latency;
};

struct http_stats {
	struct http_route_stats routes[HTTP_STATS_ROUTES];
	_Atomic uint64_t bytes_in, bytes_out;
	_Atomic uint64_t connections; /* open now */
	_Atomic uint64_t accepted;
	_Atomic uint64_t accept_failed;
	_Atomic uint64_t refused;   /* heads and bodies that broke a rule */
	_Atomic uint64_t timed_out; /* connections cut by a time limit */
	_Atomic uint64_t evicted;   /* connections closed to make room for others */
	_Atomic uint64_t forwarded_out, forwarded_in;
	_Atomic uint64_t watchers; /* streams open now */
	_Atomic uint64_t watch_ended[HTTP_WATCH_ENDS];
};

void http_stats_answer(struct http_stats *s, const struct http_route *route, int status, uint64_t ns);
/* Appends the server's series, all threads summed, in the text exposition format. */
void http_stats_write(const struct http_server *s, struct buf *out);

#endif /* HTTP_STATS_H */
