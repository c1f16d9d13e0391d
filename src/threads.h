/* threads.h - the process' threads: a loop around each of the turn functions, and the order they end in.
 *
 *   consensus  libev loop with net's sockets; node_turn before it blocks      http x N   http/server.h, a libev loop
 * each log        node_log_turn                                                  control    two lanes of control_turn
 *   apply      node_apply_turn                                                pool x 2   jobs that may wait for
 * anything
 *
 * What a thread does stands in the turn functions, which the simulator calls without any thread; here is only when.
 * Thread: main.
 */
#ifndef THREADS_H
#define THREADS_H

#include <stddef.h>

#include "base/err.h"
#include "base/pool.h"
#include "node/node.h"

struct control;
struct ev_loop;
struct http_server;
struct threads;

struct threads_options {
	struct ev_loop *consensus_loop; /* holds net's watchers */
	struct node *node;
	struct pool *pool;
	struct http_server *http;
	size_t http_count;
	struct control *control; /* NULL: no control plane */
};

/* Makes what belongs to the threads; none runs yet. Everything in `o` is borrowed until threads_free. */
struct threads *threads_new(const struct threads_options *o);
/* Starts them all. ERR_SYSTEM when one could not be started; then threads_stop ends those that were. */
MUST_CHECK int threads_start(struct threads *t, struct err *e);
/* Lets the http threads finish their answers (bounded by http_options.stop_ms), then ends all, each after those that
 * need it. Waits for a disk that does not answer: what was handed to the log is written. */
void threads_stop(struct threads *t);
void threads_free(struct threads *t); /* after threads_stop, or never started; accepts NULL */

#endif /* THREADS_H */
