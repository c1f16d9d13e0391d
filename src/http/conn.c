#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/watch.h"
#include "net/addr.h"

#define READ_STEP (16u << 10) /* bytes asked for at once */
#define STREAM_ROUNDS 16

static uint8_t *request_bytes(const struct http_conn *c)
{
	return c->in.data + c->in_off;
}

static size_t request_have(const struct http_conn *c)
{
	return c->in.len - c->in_off;
}

/* ---- memory ---- */

/* Room for `want` more bytes, counted if it is more than every connection may have. False: all requests together hold
 * too much. */
static bool hold(struct http_conn *c, size_t want)
{
	size_t cap = c->in.cap > HTTP_REQUEST_FREE ? c->in.cap : HTTP_REQUEST_FREE;

	if (c->in.len + want <= HTTP_REQUEST_FREE)
		return true;
	while (cap - c->in.len < want)
		cap *= 2; /* as the buffer will grow */
	if (cap <= c->held)
		return true;
	if (!http_server_take_bytes(c->thread->server, cap - c->held))
		return false;
	c->held = cap;
	return true;
}

/* A large request is done with: its memory goes, what came behind it stays. */
static void let_go(struct http_conn *c)
{
	struct buf rest = { 0 };

	if (c->held == 0)
		return;
	if (request_have(c) > 0) {
		http_thread_take_buf(c->thread, &rest);
		buf_put(&rest, request_bytes(c), request_have(c));
	}
	buf_fini(&c->in);
	c->in = rest;
	c->in_off = 0;
	http_server_give_bytes(c->thread->server, c->held);
	c->held = 0;
}

/* ---- closing ---- */

void http_conn_free(struct http_conn *c)
{
	struct http_thread *t = c->thread;

	assert(c->state == HTTP_CONN_CLOSED);
	*(c->prev ? &c->prev->next : &t->connections) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	http_call_clear(&c->call);
	http_server_give_bytes(t->server, c->held);
	buf_fini(&c->in);
	buf_fini(&c->out);
	explicit_bzero(&c->call.session, sizeof(c->call.session));
	mem_free(c);
}

static void settle(struct http_conn *c);

static void list_dead(struct http_conn *c)
{
	if (c->in_dead)
		return;
	c->in_dead = true;
	c->dead_next = c->thread->dead;
	c->thread->dead = c;
}

void http_conn_close(struct http_conn *c)
{
	struct http_thread *t = c->thread;
	bool busy = c->state == HTTP_CONN_BUSY;

	if (c->state == HTTP_CONN_CLOSED)
		return;
	http_conn_deadline_clear(c);
	ev_io_stop(t->loop, &c->io);
	net_stream_close(&c->stream);
	t->unsent -= c->watch ? 0 : http_conn_unsent(c);
	c->out_sent = c->out.len;
	c->state = HTTP_CONN_CLOSED;
	http_watch_free(c->watch);
	c->watch = NULL;
	t->connection_count--;
	atomic_store_explicit(&t->stats.connections, t->connection_count, memory_order_relaxed);
	/* A busy one is freed when its call has finished: the service still reads the request. */
	if (!busy)
		list_dead(c);
}

/* ---- writing ---- */

static void put_answer(struct http_conn *c, const struct svc_answer *a, bool is_head, bool shows_leader, bool is_stream)
{
	struct http_thread *t = c->thread;
	struct http_answer_style style = {
		.is_head = is_head,
		.is_stream = is_stream,
		.close = c->closing,
		.http10 = c->scan.minor == 0,
		.shows_leader = shows_leader,
	};
	const struct node_status *st;
	uint64_t version;
	size_t before;

	if (c->out.cap == 0)
		http_thread_take_buf(t, &c->out);
	before = c->out.len;
	style.applied = a->index ? a->index : svc_applied_index(t->svc);
	if (shows_leader)
		style.contact_ms = node_contact_age_ms(t->server->node);
	st = svc_node_status(t->svc, &version);
	http_fixed_refresh(&t->fixed, st, version);
	http_answer_put(&c->out, &t->fixed, a, &style);
	c->written += c->out.len - before;
	t->unsent += c->out.len - before;
}

/* False: the connection broke and is closed. */
static bool flush(struct http_conn *c)
{
	struct http_thread *t = c->thread;

	while (http_conn_unsent(c) > 0) {
		ssize_t n = net_stream_send(&c->stream, c->out.data + c->out_sent, http_conn_unsent(c));

		if (n == 0)
			return true;
		if (n < 0) {
			http_conn_close(c);
			return false;
		}
		c->out_sent += (size_t)n;
		c->sent += (uint64_t)n;
		t->unsent -= c->watch ? 0 : (size_t)n;
		prom_count(&t->stats.bytes_out, (uint64_t)n);
	}
	c->out_sent = 0;
	buf_clear(&c->out);
	if (c->out.cap > 0)
		http_thread_give_buf(t, &c->out);
	return true;
}

static void watch(struct http_conn *c, int want)
{
	if (want == (ev_is_active(&c->io) ? c->io.events & (EV_READ | EV_WRITE) : 0))
		return;
	ev_io_stop(c->thread->loop, &c->io);
	ev_io_set(&c->io, c->stream.fd, want);
	if (want)
		ev_io_start(c->thread->loop, &c->io);
}

static void list_resume(struct http_conn *c)
{
	if (c->in_resume)
		return;
	c->in_resume = true;
	c->resume_next = c->thread->resume;
	c->thread->resume = c;
}

/* A busy connection is not read from, but most send nothing then: its watcher stays until it fires (see on_io), which
 * saves two system calls in every write. */
static void set_events(struct http_conn *c)
{
	bool watched = ev_is_active(&c->io) && c->io.events & EV_READ;
	bool reads =
	    !c->peer_done && http_conn_unsent(c) <= HTTP_UNSENT_HIGH && (c->state != HTTP_CONN_BUSY || watched);

	if (c->state == HTTP_CONN_LINGER || c->state == HTTP_CONN_STREAM)
		reads = !c->peer_done;
	watch(c, net_stream_waits(&c->stream, reads, http_conn_unsent(c) > 0));
	if (reads && c->state != HTTP_CONN_BUSY && net_stream_has_more(&c->stream))
		list_resume(c);
}

/* After anything happened: write, then wait for what comes next. */
static void settle(struct http_conn *c)
{
	if (c->state == HTTP_CONN_CLOSED || !flush(c))
		return;
	/* A client that takes everything is given more, but not the whole turn. */
	for (int i = 0; i < STREAM_ROUNDS && c->state == HTTP_CONN_STREAM && http_conn_unsent(c) == 0; i++) {
		if (!http_watch_fill(c->watch))
			break;
		if (!flush(c))
			return;
	}
	if (c->state == HTTP_CONN_LINGER && http_conn_unsent(c) == 0 && !c->shut) {
		/* Closing with unread bytes would reset the connection, and the client might never see the answer. */
		c->shut = true;
		if (c->peer_done || !net_stream_shutdown(&c->stream)) {
			http_conn_close(c);
			return;
		}
	}
	if (c->state == HTTP_CONN_IDLE || c->state == HTTP_CONN_LINGER)
		let_go(c);
	if (request_have(c) == 0 && c->state == HTTP_CONN_IDLE) {
		c->in_off = 0;
		buf_clear(&c->in);
		if (c->in.cap > 0)
			http_thread_give_buf(c->thread, &c->in);
	}
	if (c->state == HTTP_CONN_IDLE && request_have(c) > 0 && http_conn_unsent(c) == 0)
		list_resume(c);
	http_conn_deadline_update(c);
	set_events(c);
}

/* ---- requests ---- */

static void begin_closing(struct http_conn *c)
{
	c->closing = true;
	c->state = HTTP_CONN_LINGER;
	c->in_off = 0;
	buf_clear(&c->in);
}

/* The last answer of this connection; the request it is for was not taken. */
static void end_with(struct http_conn *c, const struct svc_answer *a)
{
	c->closing = true;
	put_answer(c, a, false, false, false);
	http_stats_answer(&c->thread->stats, NULL, a->status, 0);
	begin_closing(c);
}

/* The request cannot be taken, so nobody can say where the next one would begin. */
static void refuse(struct http_conn *c, const struct http_refusal *why)
{
	struct http_thread *t = c->thread;
	struct svc_answer a = { 0 };

	svc_fail(&a, why->status, why->code, NULL, "%s", why->text);
	end_with(c, &a);
	prom_count(&t->stats.refused, 1);
	http_thread_log_refused(t, c->call.rq.peer, why->status, why->text);
	buf_fini(&a.body);
}

/* It cannot be taken now. Nothing of it has been looked at, so nothing happened, and the rest is not waited for. */
static void refuse_overloaded(struct http_conn *c)
{
	struct svc_answer a = { 0 };

	svc_fail_write(&a, 503, "overloaded", "none", 0,
	               "the requests in hand hold as much memory as they may; nothing was done, try again");
	end_with(c, &a);
	buf_fini(&a.body);
	settle(c);
}

/* The answer's head, and from then on lines as they come. What the connection holds of a request goes. */
static void begin_stream(struct http_conn *c, struct svc_answer *a)
{
	a->content_type = http_watch_content_type(c);
	c->closing = true;
	put_answer(c, a, false, true, true);
	c->thread->unsent -= http_conn_unsent(c);
	c->state = HTTP_CONN_STREAM;
	http_watch_begin(c);
	http_call_clear(&c->call);
	c->in_off = 0;
	buf_clear(&c->in);
	let_go(c);
	http_thread_give_buf(c->thread, &c->in);
	if (!c->advancing)
		settle(c);
}

void http_conn_wrote(struct http_conn *c, size_t n)
{
	c->written += n;
}

void http_conn_push(struct http_conn *c)
{
	if (c->state == HTTP_CONN_STREAM)
		settle(c);
}

void http_conn_end_stream(struct http_conn *c)
{
	assert(c->state == HTTP_CONN_STREAM);
	c->thread->unsent += http_conn_unsent(c);
	http_watch_free(c->watch);
	c->watch = NULL;
	begin_closing(c);
	settle(c);
}

static void resume(struct http_conn *c);

static void on_call_done(struct http_call *call, struct svc_answer *a)
{
	struct http_conn *c = CONTAINER_OF(call, struct http_conn, call);

	if (c->state == HTTP_CONN_CLOSED) {
		list_dead(c);
		return;
	}
	assert(c->state == HTTP_CONN_BUSY);
	if (!http_scan_keeps_alive(&c->scan) || c->thread->stopping)
		c->closing = true;
	if (http_watch_is_begun(c, a) && http_watch_has_room(c->thread, a)) {
		begin_stream(c, a);
		return;
	}
	put_answer(c, a, call->is_head, call->verb == HTTP_VERB_GET && call->rq.grant != SVC_GRANT_NONE, false);
	http_call_clear(call);
	c->in_off += c->scan.end + c->body_len;
	if (c->closing)
		begin_closing(c);
	else
		c->state = HTTP_CONN_IDLE;
	if (!c->advancing)
		resume(c);
}

static void run(struct http_conn *c)
{
	const uint8_t *bytes = request_bytes(c);
	struct http_call *call = &c->call;

	call->verb = c->head.verb;
	call->is_head = c->head.is_head;
	call->overloaded = c->thread->unsent > HTTP_UNSENT_TOTAL;
	call->target = http_span_str(bytes, c->head.target);
	for (size_t i = 0; i < HTTP_FIELD_END; i++)
		call->fields[i] = http_span_str(bytes, c->head.fields[i]);
	call->rq.body = (struct str){ (const char *)bytes + c->scan.end, c->body_len };
	c->state = HTTP_CONN_BUSY;
	http_call_start(call);
}

static void begin_request(struct http_conn *c)
{
	c->state = HTTP_CONN_HEAD;
	c->first = false;
	c->fresh = true;
	c->scan = (struct http_scan){ 0 };
	c->chunk = (struct http_chunk){ 0 };
	c->body_len = 0;
	c->body_done = false;
}

/* The head is whole. False: refused. */
static bool begin_body(struct http_conn *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_refusal why;
	bool wants_body = c->scan.chunked || c->scan.length > 0;

	if (!http_head_parse(&c->scan, request_bytes(c), &c->head, &why)) {
		refuse(c, &why);
		return false;
	}
	if (c->scan.length > HTTP_BODY_MAX) {
		refuse(c, &(struct http_refusal){ 413, "too_large", "the body is longer than 1 MiB" });
		return false;
	}
	c->state = HTTP_CONN_BODY;
	/* RFC 9110, 10.1.1: not when the body has begun to come already. */
	if (c->scan.expects_continue && wants_body && c->scan.minor > 0 && request_have(c) == c->scan.end) {
		if (c->out.cap == 0)
			http_thread_take_buf(c->thread, &c->out);
		buf_puts(&c->out, go_on);
		c->written += sizeof(go_on) - 1;
		c->thread->unsent += sizeof(go_on) - 1;
	}
	return true;
}

/* Decodes in place: the payload closes up behind the head, what follows the body closes up behind that. */
static bool take_chunks(struct http_conn *c)
{
	uint8_t *raw = request_bytes(c) + c->scan.end + c->body_len;
	size_t len = request_have(c) - c->scan.end - c->body_len;
	size_t used, put;
	enum http_chunk_result r = http_chunk_read(&c->chunk, raw, len, &used, raw, &put);

	if (r == HTTP_CHUNK_REFUSED) {
		refuse(c, &c->chunk.refusal);
		return false;
	}
	c->body_done = r == HTTP_CHUNK_DONE;
	c->body_len += put;
	memmove(raw + put, raw + used, len - used);
	c->in.len -= used - put;
	return c->body_done;
}

/* True: the body is whole. */
static bool take_body(struct http_conn *c)
{
	if (c->scan.chunked)
		return c->body_done || take_chunks(c);
	if (request_have(c) - c->scan.end < c->scan.length)
		return false;
	c->body_len = (size_t)c->scan.length;
	c->body_done = true;
	return true;
}

/* One step forward; false: nothing more can be done now. */
static bool step(struct http_conn *c)
{
	switch (c->state) {
	case HTTP_CONN_IDLE:
		if (request_have(c) == 0 || http_conn_unsent(c) > HTTP_UNSENT_HIGH)
			return false;
		let_go(c);
		begin_request(c);
		return true;
	case HTTP_CONN_HEAD:
		switch (http_scan_head(&c->scan, request_bytes(c), request_have(c))) {
		case HTTP_SCAN_MORE: return false;
		case HTTP_SCAN_REFUSED: refuse(c, &c->scan.refusal); return false;
		case HTTP_SCAN_DONE: break;
		}
		return begin_body(c);
	case HTTP_CONN_BODY:
		if (!take_body(c))
			return false;
		run(c);
		return c->state == HTTP_CONN_IDLE;
	case HTTP_CONN_BUSY:
	case HTTP_CONN_STREAM:
	case HTTP_CONN_LINGER:
	case HTTP_CONN_CLOSED: break;
	}
	return false;
}

static void resume(struct http_conn *c)
{
	c->advancing = true;
	while (step(c))
		;
	c->advancing = false;
	settle(c);
}

/* ---- reading ---- */

/* Bytes before the current request are of no more use. */
static void compact(struct http_conn *c)
{
	if (c->in_off > 0) {
		buf_consume(&c->in, c->in_off);
		c->in_off = 0;
	}
}

/* Of a body not more at once than has come: who only announces much is not given it. */
static size_t read_size(const struct http_conn *c)
{
	uint64_t whole = c->scan.end + c->scan.length;
	size_t have = request_have(c);
	size_t most = have > READ_STEP ? have : READ_STEP;

	if (c->state != HTTP_CONN_BODY || c->scan.chunked || whole - have < READ_STEP)
		return READ_STEP;
	return whole - have < most ? (size_t)(whole - have) : most;
}

/* The client ended its side. What it is owed and has not taken yet it may still take. */
static void on_eof(struct http_conn *c)
{
	c->peer_done = true;
	if (http_conn_unsent(c) == 0 || c->state == HTTP_CONN_STREAM) {
		http_conn_close(c);
		return;
	}
	begin_closing(c);
	settle(c);
}

static void discard_some(struct http_conn *c)
{
	uint8_t sink[4096];
	ssize_t n = net_stream_recv(&c->stream, sink, sizeof(sink));

	if (n == -ENODATA)
		on_eof(c);
	else if (n < 0)
		http_conn_close(c);
}

/* errnum: why, 0 = there is nothing for now. */
static void read_nothing(struct http_conn *c, int errnum)
{
	if (errnum == EPROTO && net_stream_fall_back(&c->stream)) {
		refuse(c, &(struct http_refusal){ 400, "bad_request", "this port speaks TLS; ask for https://" });
		settle(c);
		return;
	}
	if (errnum == ENODATA) {
		on_eof(c);
		return;
	}
	if (errnum == EPROTO) {
		prom_count(&c->thread->stats.refused, 1);
		http_thread_log_refused(c->thread, c->call.rq.peer, 0, net_stream_why(&c->stream));
	}
	if (errnum)
		http_conn_close(c);
	else
		settle(c);
}

static void read_some(struct http_conn *c)
{
	ssize_t n;

	if (c->in.cap == 0)
		http_thread_take_buf(c->thread, &c->in);
	compact(c);
	size_t want = read_size(c);

	if (!hold(c, want)) {
		refuse_overloaded(c);
		return;
	}
	uint8_t *to = buf_reserve(&c->in, want);

	n = net_stream_recv(&c->stream, to, want);
	if (n <= 0) {
		read_nothing(c, (int)-n);
		return;
	}
	buf_advance(&c->in, (size_t)n);
	prom_count(&c->thread->stats.bytes_in, (uint64_t)n);
	resume(c);
}

static void on_ready(struct http_conn *c, int revents)
{
	if (revents & EV_READ && (c->state == HTTP_CONN_LINGER || c->state == HTTP_CONN_STREAM)) {
		discard_some(c);
		settle(c);
	} else if (revents & EV_READ && c->state != HTTP_CONN_BUSY) {
		read_some(c);
	} else {
		if (revents & EV_READ)
			watch(c, http_conn_unsent(c) > 0 ? EV_WRITE : 0);
		settle(c);
	}
}

static void on_io(struct ev_loop *loop, ev_io *w, int revents)
{
	struct http_conn *c = w->data;

	(void)loop;
	on_ready(c, net_stream_ready(&c->stream, revents));
}

void http_conn_go_on(struct http_conn *c)
{
	if (c->state == HTTP_CONN_CLOSED || c->state == HTTP_CONN_BUSY)
		return;
	if (c->state == HTTP_CONN_IDLE && request_have(c) > 0)
		resume(c);
	else if (!c->peer_done && net_stream_has_more(&c->stream))
		on_ready(c, EV_READ);
}

/* ---- beginning and ending ---- */

void http_conn_new(struct http_thread *t, struct net_stream stream)
{
	struct http_conn *c = mem_zalloc(sizeof(*c));
	char peer[NET_ADDR_MAX + 1];
	int on = 1;

	/* Answers are whole writes: waiting to fill a segment only delays them. A socket that refuses this still works.
	 */
	(void)setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	net_peer_text(stream.fd, peer);
	c->thread = t;
	c->stream = stream;
	c->first = true;
	c->call.thread = t;
	c->call.finish = on_call_done;
	if (!t->server->o.auth) {
		c->call.rq.principal = (struct svc_principal){ .anonymous = true, .root = true };
		snprintf(c->call.rq.principal.name, sizeof(c->call.rq.principal.name), "anonymous");
	}
	snprintf(c->call.rq.peer, sizeof(c->call.rq.peer), "%.*s", (int)sizeof(c->call.rq.peer) - 1, peer);
	snprintf(c->call.rq.origin, sizeof(c->call.rq.origin), "%s", t->server->o.node_id);
	ev_io_init(&c->io, on_io, stream.fd, EV_READ);
	c->io.data = c;
	c->next = t->connections;
	if (c->next)
		c->next->prev = c;
	t->connections = c;
	t->connection_count++;
	atomic_store_explicit(&t->stats.connections, t->connection_count, memory_order_relaxed);
	prom_count(&t->stats.accepted, 1);
	settle(c);
}

void http_conn_evict(struct http_conn *c)
{
	prom_count(&c->thread->stats.evicted, 1);
	http_conn_close(c);
}

void http_conn_expire(struct http_conn *c)
{
	if (c->deadline != HTTP_DEADLINE_IDLE && c->deadline != HTTP_DEADLINE_LINGER)
		prom_count(&c->thread->stats.timed_out, 1);
	if (c->deadline == HTTP_DEADLINE_REQUEST && c->state != HTTP_CONN_IDLE) {
		refuse(c, &(struct http_refusal){ 408, "timeout", "the request did not arrive in time" });
		settle(c);
		return;
	}
	http_conn_close(c);
}

void http_conn_stop(struct http_conn *c)
{
	c->closing = true;
	if (c->state == HTTP_CONN_STREAM)
		http_watch_end(c->watch, HTTP_WATCH_END_NOT_READY);
	if (c->state != HTTP_CONN_IDLE)
		return;
	begin_closing(c);
	settle(c);
}
