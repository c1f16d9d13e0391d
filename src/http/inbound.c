#include "http/inbound.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/slab.h"
#include "http/thread.h"
#include "http/wire.h"
#include "net/forward.h"

struct http_inbound {
	struct http_thread *thread;
	struct net_link *link; /* NULL: it has ended */
	char from[NET_NAME_MAX + 1];
	struct inbound_call *first; /* under way */
	size_t calls;
	bool paused;
	struct http_inbound *next;
};

/* The frame's slab holds what the call points into. */
struct inbound_call {
	struct http_call call;
	struct http_inbound *in;
	struct slab *slab;
	size_t held; /* of the frame: counted against the server's bound */
	uint64_t id;
	struct inbound_call *prev, *next; /* in the link's list */
};

static void call_free(struct inbound_call *ic)
{
	struct http_inbound *in = ic->in;

	*(ic->prev ? &ic->prev->next : &in->first) = ic->next;
	if (ic->next)
		ic->next->prev = ic->prev;
	in->calls--;
	http_call_clear(&ic->call);
	slab_unref(ic->slab);
	http_server_give_bytes(in->thread->server, ic->held);
	mem_free(ic);
}

static void set_paused(struct http_inbound *in, bool paused)
{
	if (in->paused == paused || !in->link)
		return;
	in->paused = paused;
	net_link_pause(in->link, paused);
}

static void send_answer(struct http_inbound *in, uint64_t id, const struct svc_answer *a)
{
	struct buf head = { 0 };

	if (!in->link)
		return;
	http_thread_take_buf(in->thread, &head);
	http_wire_put_answer(&head, a);
	struct net_piece pieces[2] = {
		{ .p = head.data, .len = head.len },
		{ .p = a->body.data, .len = a->body.len },
	};

	/* An answer that finds no room is lost with its link: the other side says outcome_unknown, which is true. */
	if (!net_forward_answer(in->link, id, pieces, a->body.len > 0 ? 2 : 1)) {
		log_warn("http.inbound", "peer=%s error=\"the link does not take an answer; it is closed\"", in->from);
		net_link_free(in->link);
		in->link = NULL;
	}
	http_thread_give_buf(in->thread, &head);
}

static void on_call_done(struct http_call *c, struct svc_answer *a)
{
	struct inbound_call *ic = CONTAINER_OF(c, struct inbound_call, call);
	struct http_inbound *in = ic->in;

	send_answer(in, ic->id, a);
	call_free(ic);
	set_paused(in, in->calls >= HTTP_INBOUND_CALLS_MAX);
}

static void end_link(struct http_inbound *in, const char *why)
{
	if (log_allow(&in->thread->link_log, 1000))
		log_info("http.inbound_end", "peer=%s reason=\"%s\"", in->from, why);
	net_link_free(in->link);
	in->link = NULL;
}

static void on_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct http_inbound *in = arg;
	struct inbound_call *ic;
	const uint8_t *rest;
	size_t rest_len;
	uint64_t id;
	struct err e = { 0 };

	if (type != NET_FORWARD_REQUEST || !net_forward_parse(body, len, &id, &rest, &rest_len)) {
		end_link(in, "a frame that is no forwarded request");
		return;
	}
	ic = mem_zalloc(sizeof(*ic));
	ic->in = in;
	ic->id = id;
	ic->call.thread = in->thread;
	ic->call.finish = on_call_done;
	ic->call.forwarded = true;
	if (http_wire_get_request(rest, rest_len, &ic->call, &e) != 0) {
		mem_free(ic);
		end_link(in, e.msg);
		return;
	}
	/* Which server it came through is known from the link's hello, not from what the frame says. */
	snprintf(ic->call.rq.origin, sizeof(ic->call.rq.origin), "%s", in->from);
	/* What was read already is refused all the same: the answer frees it, and the follower's client comes again. */
	if (http_server_take_bytes(in->thread->server, len))
		ic->held = len;
	else
		ic->call.overloaded = true;
	ic->slab = slab_ref(slab);
	ic->next = in->first;
	if (ic->next)
		ic->next->prev = ic;
	in->first = ic;
	in->calls++;
	set_paused(in, in->calls >= HTTP_INBOUND_CALLS_MAX);
	prom_count(&in->thread->stats.forwarded_in, 1);
	http_call_start(&ic->call);
}

static void on_close(void *arg, const struct err *why)
{
	end_link(arg, why->msg);
}

void http_inbound_add(struct http_thread *t, const struct http_new_link *link)
{
	struct http_inbound *in = mem_zalloc(sizeof(*in));
	const struct net_link_hooks hooks = { .arg = in, .on_frame = on_frame, .on_close = on_close };

	in->thread = t;
	snprintf(in->from, sizeof(in->from), "%s", link->from);
	in->link = net_link_new(t->loop, link->stream, NET_FRAME_MAX, &hooks);
	in->next = t->inbound;
	t->inbound = in;
}

bool http_inbound_is_idle(const struct http_thread *t)
{
	for (const struct http_inbound *in = t->inbound; in; in = in->next) {
		if (in->calls > 0 || (in->link && net_link_unsent(in->link) > 0))
			return false;
	}
	return true;
}

void http_inbound_close_all(struct http_thread *t)
{
	for (struct http_inbound *in = t->inbound; in; in = in->next) {
		net_link_free(in->link);
		in->link = NULL;
	}
}

void http_inbound_sweep(struct http_thread *t)
{
	struct http_inbound **at = &t->inbound;

	while (*at) {
		struct http_inbound *in = *at;

		if (in->link || in->calls > 0) {
			at = &in->next;
			continue;
		}
		*at = in->next;
		mem_free(in);
	}
}

void http_inbound_fini(struct http_thread *t)
{
	http_inbound_close_all(t);
	for (struct http_inbound *in = t->inbound; in; in = in->next) {
		while (in->first)
			call_free(in->first);
	}
	http_inbound_sweep(t);
}
