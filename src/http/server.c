/* The server and the loop of one thread; sockets' bytes are conn.c's affair. */
#include "http/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/conn.h"
#include "http/forward.h"
#include "http/inbound.h"
#include "http/thread.h"

#define CONNECTIONS_MAX 16384
#define REQUEST_BYTES_MAX ((size_t)64 << 20)
#define LINK_SLOTS 64
/* Operations of one thread: its connections have one each; the rest are other servers' requests. */
#define FORWARDED_SLOTS 4096
#define STOP_IDLE_MS 200     /* at a stop, how long a request may still begin on an open connection */
#define STOP_PARTIAL_MS 1000 /* and how long one that has begun may go on arriving */

size_t http_default_connections(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY ||
	    lim.rlim_cur >= CONNECTIONS_MAX + HTTP_RESERVED_FDS)
		return CONNECTIONS_MAX;
	/* With few descriptors half of them are kept back: a node without clients is better than one without a log. */
	if (lim.rlim_cur < (rlim_t)2 * HTTP_RESERVED_FDS)
		return lim.rlim_cur / 2 > 1 ? (size_t)lim.rlim_cur / 2 : 1;
	return (size_t)lim.rlim_cur - HTTP_RESERVED_FDS;
}

static void set_default(uint32_t *v, uint32_t value)
{
	if (*v == 0)
		*v = value;
}

int http_server_new(const struct http_options *o, struct http_server **out, struct err *e)
{
	if (o->thread_count == 0 || !o->node || !o->node_id)
		return err_set(e, ERR_INVALID, "the HTTP server needs a node and at least one thread");
	struct http_server *s = mem_zalloc(sizeof(*s));

	s->o = *o;
	set_default(&s->o.request_ms, 10000);
	set_default(&s->o.write_ms, 30000);
	set_default(&s->o.idle_ms, 60000);
	set_default(&s->o.stop_ms, 10000);
	set_default(&s->o.leader_wait_ms, 1000);
	set_default(&s->o.forward_ms, 15000);
	if (s->o.request_bytes_max == 0)
		s->o.request_bytes_max = REQUEST_BYTES_MAX;
	if (s->o.connections_max == 0)
		s->o.connections_max = http_default_connections();
	s->connections_per_thread = s->o.connections_max / o->thread_count;
	if (s->connections_per_thread == 0)
		s->connections_per_thread = 1;
	s->node = o->node;
	s->threads = mem_zalloc(o->thread_count * sizeof(*s->threads));
	s->started_ms = clock_mono_ms();
	s->shared = svc_shared_new(&(struct svc_shared_options){
	    .node = o->node,
	    .data_dir = o->data_dir,
	    .build = o->build,
	    .max_entry_type = o->max_entry_type,
	    .flags = o->flags,
	    .auth = o->auth,
	    .pool = o->pool,
	    .admin_password = o->admin_password,
	    .secrets = { o->secrets.current, o->secrets.current_len, o->secrets.previous, o->secrets.previous_len },
	});
	*out = s;
	return 0;
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	assert(atomic_load(&s->request_bytes) == 0);
	svc_shared_free(s->shared);
	mem_free(s->threads);
	mem_free(s);
}

/* ---- what the files of this folder share ---- */

bool http_server_take_bytes(struct http_server *s, size_t n)
{
	size_t now = atomic_load_explicit(&s->request_bytes, memory_order_relaxed);

	do {
		if (n > s->o.request_bytes_max || now > s->o.request_bytes_max - n)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&s->request_bytes, &now, now + n, memory_order_relaxed,
	                                                memory_order_relaxed));
	return true;
}

void http_server_give_bytes(struct http_server *s, size_t n)
{
	const size_t before = atomic_fetch_sub_explicit(&s->request_bytes, n, memory_order_relaxed);

	assert(before >= n);
}

void http_thread_take_buf(struct http_thread *t, struct buf *b)
{
	assert(b->cap == 0);
	if (t->pool_count > 0)
		*b = t->pool[--t->pool_count];
}

void http_thread_give_buf(struct http_thread *t, struct buf *b)
{
	if (b->cap > HTTP_POOL_BUFFER_MAX || t->pool_count == HTTP_POOL_BUFFERS) {
		buf_fini(b);
		return;
	}
	buf_clear(b);
	if (b->cap > 0)
		t->pool[t->pool_count++] = *b;
	*b = (struct buf){ 0 };
}

void http_thread_log_refused(struct http_thread *t, const char *peer, int status, const char *why)
{
	uint64_t second = clock_mono_ms() / 1000;

	if (second != t->refused_second) {
		if (t->refused_lines > HTTP_REFUSED_LINES)
			log_warn("http.refused", "held_back=%u", t->refused_lines - HTTP_REFUSED_LINES);
		t->refused_second = second;
		t->refused_lines = 0;
	}
	if (++t->refused_lines <= HTTP_REFUSED_LINES)
		log_warn("http.refused", "peer=%s status=%d reason=\"%s\"", peer, status, why);
}

/* ---- accepting ---- */

static void pause_listener(struct http_thread *t, uint32_t ms)
{
	ev_io_stop(t->loop, &t->listen_io);
	t->accept_again_ms = clock_mono_ms() + ms;
}

/* Out of descriptors or memory, accept fails at once and for as long as they are missing: without a pause the loop
 * would only burn its core. The clients wait in the backlog meanwhile. */
static void accept_failed(struct http_thread *t, int errnum)
{
	uint32_t ms = t->accept_backoff_ms ? t->accept_backoff_ms * 2 : HTTP_ACCEPT_BACKOFF_MS;

	t->accept_backoff_ms = ms > HTTP_ACCEPT_BACKOFF_MAX_MS ? HTTP_ACCEPT_BACKOFF_MAX_MS : ms;
	prom_count(&t->stats.accept_failed, 1);
	if (log_allow(&t->accept_log, 1000))
		log_warn("http.accept", "error=\"%s\" connections=%zu pause_ms=%u", strerror(errnum),
		         t->connection_count, t->accept_backoff_ms);
	pause_listener(t, t->accept_backoff_ms);
}

static bool is_accept_harmless(int errnum)
{
	/* accept(2): these belong to the connection that was to be taken, not to the listening socket. */
	return errnum == EAGAIN || errnum == EWOULDBLOCK || errnum == EINTR || errnum == ECONNABORTED ||
	       errnum == EPROTO || errnum == EPERM || errnum == ENETDOWN || errnum == ENETUNREACH ||
	       errnum == EHOSTDOWN || errnum == EHOSTUNREACH || errnum == ENOPROTOOPT || errnum == ENONET;
}

/* Takes one client from the backlog. False: there is none, or no room. */
static bool accept_one(struct http_thread *t)
{
	struct http_conn *victim = NULL;

	/* At the limit a client that does nothing gives way to one that wants something. */
	if (t->connection_count >= t->server->connections_per_thread) {
		victim = http_conn_victim(t, clock_mono_ms());
		if (!victim) {
			pause_listener(t, HTTP_ACCEPT_BACKOFF_MS);
			return false;
		}
	}
	int fd = accept4(t->server->o.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		/* EINVAL: another thread began to stop and the socket listens no more. */
		if (errno == EINVAL)
			ev_io_stop(t->loop, &t->listen_io);
		else if (!is_accept_harmless(errno))
			accept_failed(t, errno);
		return false;
	}
	t->accept_backoff_ms = 0;
	if (victim)
		http_conn_evict(victim);
	struct net_stream stream;
	struct err e;

	if (net_stream_open(t->server->o.tls, fd, false, &stream, &e) != 0) {
		accept_failed(t, ENOMEM);
		return false;
	}
	http_conn_new(t, stream);
	return true;
}

static void on_listen(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	for (int i = 0; i < HTTP_ACCEPT_BURST && accept_one(w->data); i++)
		;
}

/* ---- the turn ---- */

static void take_links(struct http_thread *t)
{
	struct http_new_link nl;

	while (queue_take(t->links, &nl)) {
		if (t->drained)
			net_stream_close(&nl.stream);
		else
			http_inbound_add(t, &nl);
	}
}

static void resume_all(struct http_thread *t)
{
	struct http_conn *c = t->resume;

	t->resume = NULL;
	while (c) {
		struct http_conn *next = c->resume_next;

		c->in_resume = false;
		c->resume_next = NULL;
		http_conn_go_on(c);
		c = next;
	}
}

static uint64_t expire_all(struct http_thread *t, uint64_t now_ms)
{
	uint64_t next = UINT64_MAX;

	for (int kind = HTTP_DEADLINE_NONE + 1; kind < HTTP_DEADLINE_END; kind++) {
		struct http_list *l = &t->deadlines[kind];

		while (l->first && now_ms >= l->first->deadline_ms)
			http_conn_expire(l->first);
		if (l->first && l->first->deadline_ms < next)
			next = l->first->deadline_ms;
	}
	return next;
}

static void free_dead(struct http_thread *t)
{
	struct http_conn *c = t->dead;

	t->dead = NULL;
	while (c) {
		struct http_conn *next = c->dead_next;

		if (c->in_resume) {
			c->dead_next = t->dead;
			t->dead = c;
		} else {
			http_conn_free(c);
		}
		c = next;
	}
}

static uint64_t accept_turn(struct http_thread *t, uint64_t now_ms)
{
	if (t->accept_again_ms == 0)
		return UINT64_MAX;
	if (now_ms < t->accept_again_ms)
		return t->accept_again_ms;
	t->accept_again_ms = 0;
	if (!t->stopping && t->listening)
		ev_io_start(t->loop, &t->listen_io);
	return UINT64_MAX;
}

/* ---- stopping ---- */

static void close_list(struct http_list *l)
{
	while (l->first)
		http_conn_close(l->first);
}

/* Who has connected is served before the socket stops listening: what is left in its backlog would be reset. From then
 * on new clients are refused at once and go elsewhere. */
static void stop_listening(struct http_thread *t)
{
	if (!t->listening)
		return;
	for (size_t i = 0; i < t->server->connections_per_thread && accept_one(t); i++)
		;
	ev_io_stop(t->loop, &t->listen_io);
	/* Another thread may have been quicker; then there is nothing left to do. */
	(void)shutdown(t->server->o.listen_fd, SHUT_RD);
}

static void begin_stop(struct http_thread *t, uint64_t now_ms)
{
	t->stopping = true;
	t->stop_began_ms = now_ms;
	stop_listening(t);
}

/* Every answer says close from now on. Who is silent is closed after a while in which a request that is on its way
 * still finds its connection open. */
static void stop_connections(struct http_thread *t, uint64_t age_ms)
{
	if (age_ms < STOP_IDLE_MS)
		return;
	/* A closed connection stays in this list until the turn's end. */
	for (struct http_conn *c = t->connections; c; c = c->next)
		http_conn_stop(c);
	if (age_ms >= STOP_PARTIAL_MS)
		close_list(&t->deadlines[HTTP_DEADLINE_REQUEST]);
}

static uint64_t stop_turn(struct http_thread *t, uint64_t now_ms)
{
	if (!t->stopping && atomic_load_explicit(&t->stop, memory_order_acquire))
		begin_stop(t, now_ms);
	if (!t->stopping || t->drained)
		return UINT64_MAX;
	uint64_t age_ms = now_ms - t->stop_began_ms;

	stop_connections(t, age_ms);
	if (age_ms >= t->server->o.stop_ms ||
	    (t->connection_count == 0 && http_inbound_is_idle(t) && svc_outstanding(t->svc) == 0)) {
		t->drained = true;
		for (struct http_conn *c = t->connections; c; c = c->next)
			http_conn_close(c);
		http_inbound_close_all(t);
		ev_break(t->loop, EVBREAK_ALL);
		return UINT64_MAX;
	}
	return t->stop_began_ms + (age_ms < STOP_IDLE_MS      ? STOP_IDLE_MS
	                           : age_ms < STOP_PARTIAL_MS ? STOP_PARTIAL_MS
	                                                      : t->server->o.stop_ms);
}

/* ---- the loop ---- */

static void min_deadline(uint64_t *next, uint64_t deadline)
{
	if (deadline < *next)
		*next = deadline;
}

/* A timer that fires too early only costs a turn, so it is moved when it would be late, not with every request. */
static void arm_timer(struct http_thread *t, uint64_t next_ms, uint64_t now_ms)
{
	if (next_ms == UINT64_MAX || (ev_is_active(&t->timer) && t->timer_ms <= next_ms))
		return;
	ev_timer_stop(t->loop, &t->timer);
	t->timer_ms = next_ms;
	/* A millisecond more, so that it is over when the timer fires. */
	ev_timer_set(&t->timer, next_ms > now_ms ? (double)(next_ms - now_ms + 1) / 1000.0 : 0.0, 0.0);
	ev_timer_start(t->loop, &t->timer);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	struct http_thread *t = w->data;
	uint64_t now_ms = clock_mono_ms();
	uint64_t next = UINT64_MAX;

	(void)loop;
	(void)revents;
	take_links(t);
	svc_turn(t->svc, now_ms);
	min_deadline(&next, http_forward_turn(t, now_ms));
	resume_all(t);
	min_deadline(&next, expire_all(t, now_ms));
	min_deadline(&next, http_watch_turn(t, now_ms));
	min_deadline(&next, accept_turn(t, now_ms));
	min_deadline(&next, stop_turn(t, now_ms));
	http_inbound_sweep(t);
	free_dead(t);

	wake_prepare(&t->wake);
	bool work = !svc_prepare_sleep(t->svc, &next) || !queue_is_empty(t->links) || t->resume || next <= now_ms ||
	            t->fwd.fresh || t->watch.fresh ||
	            (!t->stopping && atomic_load_explicit(&t->stop, memory_order_acquire));

	if (work && !ev_is_active(&t->idle))
		ev_idle_start(t->loop, &t->idle);
	else if (!work && ev_is_active(&t->idle))
		ev_idle_stop(t->loop, &t->idle);
	arm_timer(t, next, now_ms);
}

static void on_check(struct ev_loop *loop, ev_check *w, int revents)
{
	struct http_thread *t = w->data;

	(void)loop;
	(void)revents;
	wake_clear(&t->wake);
}

/* These only end the loop's sleep: the work is done in on_prepare, before the next one. */
static void on_wake(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

static void on_idle(struct ev_loop *loop, ev_idle *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

struct http_thread *http_thread_new(struct http_server *s, struct ev_loop *loop)
{
	struct http_thread *t = mem_zalloc(sizeof(*t));

	assert(s->thread_count < s->o.thread_count);
	t->server = s;
	t->loop = loop;
	wake_init(&t->wake);
	t->links = queue_new(LINK_SLOTS, sizeof(struct http_new_link), &t->wake);
	t->svc = svc_new(s->shared, s->connections_per_thread + FORWARDED_SLOTS, &t->wake);
	http_forward_init(t);

	ev_io_init(&t->listen_io, on_listen, s->o.listen_fd, EV_READ);
	ev_io_init(&t->wake_io, on_wake, t->wake.fd, EV_READ);
	ev_prepare_init(&t->prepare, on_prepare);
	ev_check_init(&t->check, on_check);
	ev_timer_init(&t->timer, on_timer, 0.0, 0.0);
	ev_idle_init(&t->idle, on_idle);
	t->listen_io.data = t->wake_io.data = t->prepare.data = t->check.data = t->timer.data = t->idle.data = t;
	ev_io_start(loop, &t->wake_io);
	ev_prepare_start(loop, &t->prepare);
	ev_check_start(loop, &t->check);
	t->listening = s->o.listen_fd >= 0;
	if (t->listening)
		ev_io_start(loop, &t->listen_io);
	s->threads[s->thread_count++] = t;
	return t;
}

void http_thread_free(struct http_thread *t)
{
	struct http_new_link nl;

	if (!t)
		return;
	t->stopping = t->drained = true;
	/* First those that hold calls under way let them go unanswered, then the calls' makers go. */
	svc_free(t->svc);
	http_forward_fini(t);
	http_inbound_fini(t);
	while (t->connections) {
		http_conn_close(t->connections);
		http_conn_free(t->connections);
	}
	http_watch_room_fini(&t->watch);
	while (queue_take(t->links, &nl))
		net_stream_close(&nl.stream);
	ev_io_stop(t->loop, &t->listen_io);
	ev_io_stop(t->loop, &t->wake_io);
	ev_prepare_stop(t->loop, &t->prepare);
	ev_check_stop(t->loop, &t->check);
	ev_timer_stop(t->loop, &t->timer);
	ev_idle_stop(t->loop, &t->idle);
	queue_free(t->links);
	wake_fini(&t->wake);
	for (size_t i = 0; i < t->pool_count; i++)
		buf_fini(&t->pool[i]);
	http_fixed_fini(&t->fixed);
	mem_free(t);
}

void http_thread_begin_stop(struct http_thread *t)
{
	atomic_store_explicit(&t->stop, true, memory_order_release);
	wake_signal(&t->wake);
}

void http_server_give_link(struct http_server *s, const struct net_hello *from, struct net_stream stream)
{
	struct http_new_link nl = { .stream = stream };
	uint32_t n = atomic_fetch_add_explicit(&s->next_thread, 1, memory_order_relaxed);

	snprintf(nl.from, sizeof(nl.from), "%s", from->name);
	/* Who comes over a link is believed to have asked its client for a password: so it proves first, by the secret
	 * or a certificate, that it is a server. */
	if (s->o.auth && !s->o.secrets.current && !(stream.tls && net_tls_session_is_mutual(stream.tls))) {
		log_warn("http.inbound", "peer=%s error=\"a server that proves nothing; the link is closed\"", nl.from);
		net_stream_close(&nl.stream);
		return;
	}
	if (s->thread_count == 0 || !queue_put(s->threads[n % s->thread_count]->links, &nl))
		net_stream_close(&nl.stream);
}
