#include "threads.h"

#include <assert.h>
#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/control.h"
#include "http/server.h"

#define POOL_THREADS 2

struct thread {
	pthread_t id;
	bool running;
};

struct consensus {
	struct thread thread;
	ev_prepare prepare;
	ev_check check;
	ev_io wake;
	ev_timer timer;
};

struct http_loop {
	struct thread thread;
	struct ev_loop *loop;
	struct http_thread *http;
};

struct lane {
	struct thread thread;
	struct threads *t;
	enum control_lane lane;
};

struct threads {
	struct threads_options o;
	struct consensus consensus;
	struct thread log, apply;
	struct thread pool[POOL_THREADS];
	struct lane lanes[CONTROL_LANE_COUNT];
	struct http_loop *http;
	/* One for each thing to end, set before its wake is signalled. */
	_Atomic bool stop_lanes, stop_consensus, stop_log, stop_apply;
};

static bool is_set(const _Atomic bool *flag)
{
	return atomic_load_explicit(flag, memory_order_acquire);
}

/* ---- consensus: the turn runs before the loop blocks, so that all that came in since shares one ---- */

static void on_consensus_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	(void)revents;
	struct threads *t = CONTAINER_OF(w, struct threads, consensus.prepare);
	if (is_set(&t->stop_consensus)) {
		ev_break(loop, EVBREAK_ALL);
		return;
	}
	/* Announced before the turn looks into its queues: what is put behind its look then rings. */
	wake_prepare(node_wake(t->o.node));
	const uint64_t now = clock_mono_ms();
	const uint64_t next = node_turn(t->o.node, now);
	ev_timer_stop(loop, &t->consensus.timer);
	if (next == UINT64_MAX)
		return;
	/* The loop's idea of now is as old as its wake-up; a timer counted from there would fire early and for nothing.
	 */
	ev_now_update(loop);
	ev_timer_set(&t->consensus.timer, next > now ? (double)(next - now) / 1000 : 0, 0);
	ev_timer_start(loop, &t->consensus.timer);
}

static void on_consensus_check(struct ev_loop *loop, ev_check *w, int revents)
{
	(void)loop;
	(void)revents;
	struct threads *t = CONTAINER_OF(w, struct threads, consensus.check);
	wake_clear(node_wake(t->o.node));
}

/* Both only end the loop's sleep. */
static void on_consensus_wake(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

static void on_consensus_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

static void init_consensus(struct threads *t)
{
	struct consensus *c = &t->consensus;
	ev_prepare_init(&c->prepare, on_consensus_prepare);
	ev_check_init(&c->check, on_consensus_check);
	ev_io_init(&c->wake, on_consensus_wake, node_wake(t->o.node)->fd, EV_READ);
	ev_timer_init(&c->timer, on_consensus_timer, 0, 0);
	ev_prepare_start(t->o.consensus_loop, &c->prepare);
	ev_check_start(t->o.consensus_loop, &c->check);
	ev_io_start(t->o.consensus_loop, &c->wake);
}

static void fini_consensus(struct threads *t)
{
	struct consensus *c = &t->consensus;
	ev_prepare_stop(t->o.consensus_loop, &c->prepare);
	ev_check_stop(t->o.consensus_loop, &c->check);
	ev_io_stop(t->o.consensus_loop, &c->wake);
	ev_timer_stop(t->o.consensus_loop, &c->timer);
}

static void *consensus_main(void *arg)
{
	struct threads *t = arg;
	ev_run(t->o.consensus_loop, 0);
	return NULL;
}

/* ---- log and apply: turns until there is nothing, then sleep ---- */

static void run_turns(struct node *n, bool (*turn)(struct node *n), struct wake *wake, const _Atomic bool *stop)
{
	for (;;) {
		if (turn(n))
			continue;
		if (is_set(stop))
			return;
		wake_prepare(wake);
		if (!turn(n) && !is_set(stop))
			wake_wait(wake, -1);
		wake_clear(wake);
	}
}

static void *log_main(void *arg)
{
	struct threads *t = arg;
	run_turns(t->o.node, node_log_turn, node_log_wake(t->o.node), &t->stop_log);
	return NULL;
}

static void *apply_main(void *arg)
{
	struct threads *t = arg;
	run_turns(t->o.node, node_apply_turn, node_apply_wake(t->o.node), &t->stop_apply);
	return NULL;
}

/* ---- the others ---- */

static void *http_main(void *arg)
{
	struct http_loop *h = arg;
	ev_run(h->loop, 0);
	return NULL;
}

static void *lane_main(void *arg)
{
	const struct lane *l = arg;
	struct control *c = l->t->o.control;
	struct wake *wake = control_wake(c, l->lane);
	while (!is_set(&l->t->stop_lanes)) {
		wake_prepare(wake);
		const uint64_t next = control_turn(c, l->lane, clock_mono_ms());
		const uint64_t now = clock_mono_ms();
		if (next > now && !is_set(&l->t->stop_lanes))
			wake_wait(wake, next == UINT64_MAX ? -1 : (int64_t)(next - now));
		wake_clear(wake);
	}
	return NULL;
}

static void *pool_main(void *arg)
{
	struct pool *p = arg;
	while (pool_wait(p, -1))
		(void)pool_turn(p); /* false: another thread was faster */
	return NULL;
}

/* ---- starting and ending ---- */

static int start(struct thread *th, const char *name, void *(*body)(void *), void *arg, struct err *e)
{
	const int errnum = pthread_create(&th->id, NULL, body, arg);
	if (errnum)
		return err_set_errno(e, ERR_SYSTEM, errnum, "cannot start the thread %s", name);
	th->running = true;
	(void)pthread_setname_np(th->id, name); /* for top and gdb; a kernel without it runs as well */
	return 0;
}

static void join(struct thread *th)
{
	if (!th->running)
		return;
	const int errnum = pthread_join(th->id, NULL);
	assert(errnum == 0);
	th->running = false;
}

int threads_start(struct threads *t, struct err *e)
{
	int rc = start(&t->log, "veena-log", log_main, t, e);
	if (!rc)
		rc = start(&t->apply, "veena-apply", apply_main, t, e);
	for (size_t i = 0; !rc && i < POOL_THREADS; i++)
		rc = start(&t->pool[i], "veena-pool", pool_main, t->o.pool, e);
	for (size_t i = 0; !rc && t->o.control && i < CONTROL_LANE_COUNT; i++)
		rc = start(&t->lanes[i].thread, "veena-control", lane_main, &t->lanes[i], e);
	if (!rc)
		rc = start(&t->consensus.thread, "veena-raft", consensus_main, t, e);
	for (size_t i = 0; !rc && i < t->o.http_count; i++)
		rc = start(&t->http[i].thread, "veena-http", http_main, &t->http[i], e);
	return rc;
}

static void set_stop(_Atomic bool *flag, struct wake *wake)
{
	atomic_store_explicit(flag, true, memory_order_release);
	wake_signal(wake);
}

void threads_stop(struct threads *t)
{
	/* Answers in hand need everybody else. */
	for (size_t i = 0; i < t->o.http_count; i++)
		http_thread_begin_stop(t->http[i].http);
	for (size_t i = 0; i < t->o.http_count; i++)
		join(&t->http[i].thread);
	/* Lanes propose to consensus, and nobody asks them any more. */
	for (size_t i = 0; t->o.control && i < CONTROL_LANE_COUNT; i++)
		set_stop(&t->stop_lanes, control_wake(t->o.control, t->lanes[i].lane));
	for (size_t i = 0; i < CONTROL_LANE_COUNT; i++)
		join(&t->lanes[i].thread);
	/* Consensus feeds log and apply; these two end only when their queues are empty. */
	set_stop(&t->stop_consensus, node_wake(t->o.node));
	join(&t->consensus.thread);
	set_stop(&t->stop_log, node_log_wake(t->o.node));
	join(&t->log);
	set_stop(&t->stop_apply, node_apply_wake(t->o.node));
	join(&t->apply);
	/* All of them may have left jobs; those are run to the end. */
	pool_close(t->o.pool);
	for (size_t i = 0; i < POOL_THREADS; i++)
		join(&t->pool[i]);
	while (pool_turn(t->o.pool))
		; /* what came while no pool thread ran */
}

struct threads *threads_new(const struct threads_options *o)
{
	struct threads *t = mem_zalloc(sizeof(*t));
	t->o = *o;
	init_consensus(t);
	for (size_t i = 0; i < CONTROL_LANE_COUNT; i++) {
		t->lanes[i].t = t;
		t->lanes[i].lane = (enum control_lane)i;
	}
	t->http = mem_zalloc(o->http_count * sizeof(*t->http));
	for (size_t i = 0; i < o->http_count; i++) {
		t->http[i].loop = ev_loop_new(EVFLAG_NOENV);
		assert(t->http[i].loop); /* every Linux has poll at least */
		t->http[i].http = http_thread_new(o->http, t->http[i].loop);
	}
	return t;
}

void threads_free(struct threads *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->o.http_count; i++) {
		http_thread_free(t->http[i].http);
		ev_loop_destroy(t->http[i].loop);
	}
	mem_free(t->http);
	fini_consensus(t);
	mem_free(t);
}
