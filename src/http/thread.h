/* http/thread.h - what the files of this folder share: the server, and one thread of it.
 *
 * A turn of a thread's loop: libev calls back for sockets; before it blocks again, on_prepare takes new links, carries
 * on the service and the forwarded requests, goes on with connections that stopped at a bound, cuts those whose time is
 * over, and ends the read transaction.   Thread: the http thread, but for the fields marked otherwise.
 */
#ifndef HTTP_THREAD_H
#define HTTP_THREAD_H

#include <ev.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/wake.h"
#include "http/answer.h"
#include "http/call.h"
#include "http/server.h"
#include "http/stats.h"
#include "http/watch.h"
#include "service/service.h"

struct http_conn;
struct http_inbound;
struct http_uplink;

/* Why a connection has a deadline. Each kind has one length of time, so each list stays sorted by appending. */
enum http_deadline {
	HTTP_DEADLINE_NONE,    /* the service or the forwarder watches the time */
	HTTP_DEADLINE_IDLE,    /* between requests */
	HTTP_DEADLINE_REQUEST, /* from a request's first byte to its last */
	HTTP_DEADLINE_WRITE,   /* until the client has taken all that is written */
	HTTP_DEADLINE_LINGER,  /* answered and closing: what still comes is thrown away */
	HTTP_DEADLINE_END,
};

#define HTTP_LINGER_MS 1000
#define HTTP_ACCEPT_BURST 4        /* connections taken at once: the other threads shall get some */
#define HTTP_ACCEPT_BACKOFF_MS 100 /* pause when nobody gives way; the first one when accept failed */
#define HTTP_ACCEPT_BACKOFF_MAX_MS 1000
#define HTTP_UNSENT_HIGH (256u << 10)    /* a connection with more unsent is not read from */
#define HTTP_UNSENT_TOTAL (32u << 20)    /* of one thread: beyond it reads are refused with 503 overloaded */
#define HTTP_REQUEST_FREE (16u << 10)    /* of a connection's request: what every one may hold, uncounted */
#define HTTP_REFUSED_LINES 20            /* log lines a second about requests that break a rule */
#define HTTP_POOL_BUFFERS 64             /* spare buffers kept per thread */
#define HTTP_POOL_BUFFER_MAX (64u << 10) /* larger ones go back to the heap */

struct http_list {
	struct http_conn *first, *last;
};

struct http_server {
	struct http_options o; /* defaults filled in */
	struct node *node;
	struct svc_shared *shared;
	size_t thread_count; /* made so far; before the threads start */
	struct http_thread **threads;
	_Atomic uint32_t next_thread; /* for links; any thread */
	size_t connections_per_thread;
	uint64_t started_ms;
	_Atomic size_t request_bytes; /* taken of o.request_bytes_max; any thread */
};

struct http_thread {
	struct http_server *server;
	struct svc *svc;
	struct ev_loop *loop;
	struct wake wake;
	struct queue *links; /* of struct http_new_link; any thread puts */
	_Atomic bool stop;   /* asked for; any thread sets */

	ev_io listen_io, wake_io;
	ev_prepare prepare;
	ev_check check;
	ev_timer timer; /* the next deadline of anything here */
	ev_idle idle;   /* runs while there is work left over: the loop then does not block */
	bool stopping, drained, listening;
	uint64_t stop_began_ms;
	uint64_t accept_again_ms; /* 0: no pause */
	uint32_t accept_backoff_ms;

	uint64_t timer_ms;             /* when it fires; never later than the next deadline */
	struct http_conn *connections; /* all */
	struct http_list deadlines[HTTP_DEADLINE_END];
	struct http_conn *resume; /* stopped at a bound with requests still in hand */
	struct http_conn *dead;   /* closed, freed at the end of the turn */
	struct http_watch_room watch;
	size_t connection_count;
	size_t unsent; /* bytes waiting in all connections but streams */

	struct buf pool[HTTP_POOL_BUFFERS];
	size_t pool_count;
	struct http_fixed fixed;
	struct http_stats stats; /* any thread reads */

	struct http_inbound *inbound; /* links that other servers forward over */
	struct {
		struct http_uplink *current; /* to the leader; NULL: none is known, or it is this node */
		struct http_uplink *old;     /* to former leaders that still owe answers */
		struct http_call *waiting;
		uint64_t version; /* of the node status followed so far, plus 1 */
		uint64_t next_id;
		bool fresh; /* something new waits: the turn goes round once more */
	} fwd;

	struct log_limit accept_log, link_log;
	uint64_t refused_second; /* monotonic second of refused_lines */
	unsigned refused_lines;
};

/* Takes n bytes of what the requests in hand may hold; false: they hold so much already. Any thread. */
bool http_server_take_bytes(struct http_server *s, size_t n);
void http_server_give_bytes(struct http_server *s, size_t n);

/* Spare buffers, so that a connection without traffic holds none. */
void http_thread_take_buf(struct http_thread *t, struct buf *b); /* b->cap is 0 */
void http_thread_give_buf(struct http_thread *t, struct buf *b);

/* Says once a second at most HTTP_REFUSED_LINES times who broke which rule. */
void http_thread_log_refused(struct http_thread *t, const char *peer, int status, const char *why);

#endif /* HTTP_THREAD_H */
