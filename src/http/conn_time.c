/* Time limits of connections, and who gives way when connections run out. */
#include "base/clock.h"
#include "http/conn.h"

/* When connections run out: who gives way after what time. A good client's request takes milliseconds to arrive, and
 * between two requests of one conversation it is silent for not much longer. */
#define EVICT_REQUEST_MS 1000
#define EVICT_IDLE_MS 250
#define EVICT_WRITE_MS 2000

void http_conn_deadline_clear(struct http_conn *c)
{
	struct http_list *l = &c->thread->deadlines[c->deadline];

	if (c->deadline == HTTP_DEADLINE_NONE)
		return;
	*(c->dl_prev ? &c->dl_prev->dl_next : &l->first) = c->dl_next;
	*(c->dl_next ? &c->dl_next->dl_prev : &l->last) = c->dl_prev;
	c->dl_prev = c->dl_next = NULL;
	c->deadline = HTTP_DEADLINE_NONE;
}

static void deadline_set(struct http_conn *c, enum http_deadline kind)
{
	const struct http_options *o = &c->thread->server->o;
	const uint32_t lengths[HTTP_DEADLINE_END] = {
		[HTTP_DEADLINE_IDLE] = o->idle_ms,
		[HTTP_DEADLINE_REQUEST] = o->request_ms,
		[HTTP_DEADLINE_WRITE] = o->write_ms,
		[HTTP_DEADLINE_LINGER] = HTTP_LINGER_MS,
	};
	struct http_list *l = &c->thread->deadlines[kind];

	http_conn_deadline_clear(c);
	if (kind == HTTP_DEADLINE_NONE)
		return;
	c->since_ms = clock_mono_ms();
	c->deadline_ms = c->since_ms + lengths[kind];
	c->deadline = kind;
	c->dl_prev = l->last;
	*(l->last ? &l->last->dl_next : &l->first) = c;
	l->last = c;
}

static enum http_deadline deadline_kind(const struct http_conn *c)
{
	/* A stream's client may read slowly: what it is owed is bounded instead. */
	if (c->state == HTTP_CONN_STREAM)
		return HTTP_DEADLINE_NONE;
	if (http_conn_unsent(c) > 0)
		return HTTP_DEADLINE_WRITE;
	switch (c->state) {
	case HTTP_CONN_IDLE: return c->first ? HTTP_DEADLINE_REQUEST : HTTP_DEADLINE_IDLE;
	case HTTP_CONN_HEAD:
	case HTTP_CONN_BODY: return HTTP_DEADLINE_REQUEST;
	case HTTP_CONN_LINGER: return HTTP_DEADLINE_LINGER;
	case HTTP_CONN_BUSY:
	case HTTP_CONN_STREAM:
	case HTTP_CONN_CLOSED: break;
	}
	return HTTP_DEADLINE_NONE;
}

/* A running time goes on: only another kind, another request, or an answer wholly taken start it anew. */
void http_conn_deadline_update(struct http_conn *c)
{
	enum http_deadline kind = deadline_kind(c);
	bool anew = kind != c->deadline || kind == HTTP_DEADLINE_IDLE || (kind == HTTP_DEADLINE_REQUEST && c->fresh) ||
	            (kind == HTTP_DEADLINE_WRITE && c->sent >= c->write_mark);

	if (!anew)
		return;
	if (kind == HTTP_DEADLINE_WRITE)
		c->write_mark = c->written;
	c->fresh = false;
	deadline_set(c, kind);
}

static struct http_conn *oldest(const struct http_thread *t, enum http_deadline kind, uint64_t min_ms, uint64_t now_ms)
{
	struct http_conn *c = t->deadlines[kind].first;

	return c && c->state != HTTP_CONN_BUSY && now_ms - c->since_ms >= min_ms ? c : NULL;
}

struct http_conn *http_conn_victim(const struct http_thread *t, uint64_t now_ms)
{
	struct http_conn *c = oldest(t, HTTP_DEADLINE_LINGER, 0, now_ms);

	if (!c)
		c = oldest(t, HTTP_DEADLINE_REQUEST, EVICT_REQUEST_MS, now_ms);
	if (!c)
		c = oldest(t, HTTP_DEADLINE_IDLE, EVICT_IDLE_MS, now_ms);
	return c ? c : oldest(t, HTTP_DEADLINE_WRITE, EVICT_WRITE_MS, now_ms);
}
