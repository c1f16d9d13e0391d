/* http/server.h - the HTTP/1.1 server: N threads, a libev loop each, over one shared listening socket.
 *
 * A thread owns its connections, its service instance and its link to the leader. Forwarded requests arrive on links
 * that the consensus thread accepted and gave away (http_server_give_link). Bounds: connections, bytes of a head and a
 * body, of all requests in hand, unsent bytes, and the total time of each step (a timer is never reset by one more
 * byte). How it fails: a request that breaks a rule is answered and its connection closed; accept without descriptors
 * backs off; an unreachable leader is 503 `no_leader`; a link that broke behind a frame is 503 `outcome_unknown`.
 * Thread: each call says which.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/peers.h"
#include "node/node.h"

struct ev_loop;
struct http_server;
struct http_thread;

#define HTTP_RESERVED_FDS 128 /* descriptors that clients never get: Raft links, log, LMDB, snapshots */

/* Times in milliseconds; 0 takes the default. Strings and pointers are borrowed for the server's life. */
struct http_options {
	int listen_fd; /* bound and listening, non-blocking, close-on-exec; the caller closes it at the end */
	struct node *node;
	struct pool *pool; /* name look-ups of the forward links */
	const char *node_id;
	const char *data_dir; /* for the disk's figures in /v1/status */
	const char *build;
	uint32_t max_entry_type;
	const int64_t *flags;       /* settings as this server was started; borrowed for the call; NULL: the defaults */
	bool auth;                  /* clients must say who they are */
	const char *admin_password; /* of the root user, if this node makes it; NULL: a random one, logged once */
	struct net_secrets secrets; /* of forward links */
	struct net_tls *link_tls;   /* likewise; NULL = plain */
	struct net_tls *tls;        /* of clients; NULL = plain HTTP */
	size_t thread_count;        /* how many threads will be made */
	size_t connections_max;     /* all threads together; 0 = http_default_connections() */
	size_t request_bytes_max;   /* memory of the requests in hand, all threads together; 0 = 64 MiB */
	uint32_t request_ms;        /* first byte of a request until its last, default 10 000 */
	uint32_t write_ms;          /* an answer until its last byte is taken by the client, default 30 000 */
	uint32_t idle_ms;           /* between requests, default 60 000 */
	uint32_t stop_ms;           /* bound on finishing answers at a stop, default 10 000 */
	uint32_t leader_wait_ms;    /* a write without a known leader waits, default 1000 */
	uint32_t forward_ms;        /* longest wait for a forwarded answer, default 15 000 */
};

size_t http_default_connections(void); /* 16384, or what the descriptor limit leaves after HTTP_RESERVED_FDS */

MUST_CHECK int http_server_new(const struct http_options *o, struct http_server **out, struct err *e);
void http_server_free(struct http_server *s); /* after all http_thread_free; accepts NULL */

/* Puts its watchers into `loop`, which the caller then runs on the thread's own stack: ev_run returns once a stop has
 * finished. Before the threads start. */
struct http_thread *http_thread_new(struct http_server *s, struct ev_loop *loop);
void http_thread_free(struct http_thread *t); /* its loop no longer runs; closes what is open; accepts NULL */

/* Stops accepting, finishes the answers in hand (at most stop_ms), closes, and breaks the loop. Any thread. */
void http_thread_begin_stop(struct http_thread *t);

/* Takes an accepted link of purpose "forward" (the stream is given away, also when no thread can take it: then it is
 * closed). Any thread; made for net_hooks.on_forward. */
void http_server_give_link(struct http_server *s, const struct net_hello *from, struct net_stream stream);

#endif /* HTTP_SERVER_H */
