#include "net/accept.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/dial.h" /* net_is_misfit */
#include "net/link.h"

#define ACCEPTS_PER_TURN 16
#define REST_MS 100 /* no descriptors left: accept would fail again at once and burn the processor */

struct incoming {
	struct net_acceptor *a;
	struct incoming *next, **link_at; /* in a->unfinished (oldest last) or a->peers */
	struct net_link *link;
	struct net_exchange exchange;
	ev_timer limit; /* of the hello */
	char from[NET_ADDR_MAX + 1];
};

struct net_acceptor {
	struct ev_loop *loop;
	int fd;
	struct net_identity id;
	struct net_accept_hooks hooks;
	ev_io io;
	ev_timer rest;
	struct log_limit rest_limit;
	struct incoming *unfinished, *peers;
	size_t unfinished_count, peer_count;
};

static void list_put(struct incoming **list, struct incoming *in)
{
	in->next = *list;
	in->link_at = list;
	if (in->next)
		in->next->link_at = &in->next;
	*list = in;
}

static void list_take(struct incoming *in)
{
	*in->link_at = in->next;
	if (in->next)
		in->next->link_at = in->link_at;
}

static bool is_peer(const struct incoming *in)
{
	return net_exchange_is_done(&in->exchange);
}

static void drop(struct incoming *in)
{
	list_take(in);
	if (is_peer(in))
		in->a->peer_count--;
	else
		in->a->unfinished_count--;
	ev_timer_stop(in->a->loop, &in->limit);
	net_link_free(in->link);
	mem_free(in);
}

/* Last act of its caller. */
static void drop_misfit(struct incoming *in, const struct err *why)
{
	const struct net_accept_hooks hooks = in->a->hooks;
	const struct err copy = *why;
	char who[NET_ADDR_MAX + 1];
	(void)snprintf(who, sizeof(who), "%s", in->exchange.peer.name[0] ? in->exchange.peer.name : in->from);
	drop(in);
	hooks.on_misfit(hooks.arg, who, &copy);
}

/* ---- the hello ---- */

static void replace_older(struct net_acceptor *a, const struct net_hello *who)
{
	for (struct incoming *in = a->peers, *next; in; in = next) {
		next = in->next;
		if (in->exchange.peer.incarnation == who->incarnation && strcmp(in->exchange.peer.name, who->name) == 0)
			drop(in);
	}
}

/* Done: the link becomes a peer's, or leaves. */
static void finish_hello(struct incoming *in)
{
	struct net_acceptor *a = in->a;
	ev_timer_stop(a->loop, &in->limit);
	list_take(in);
	a->unfinished_count--;
	if (in->exchange.purpose == NET_PURPOSE_PEER) {
		replace_older(a, &in->exchange.peer);
		list_put(&a->peers, in);
		a->peer_count++;
		net_link_set_frame_max(in->link, NET_FRAME_MAX);
		if (a->peer_count > NET_ACCEPT_PEERS_MAX) {
			struct err why;
			err_set(&why, ERR_FULL, "more than %d links between nodes", NET_ACCEPT_PEERS_MAX);
			drop_misfit(in, &why);
		}
		return;
	}
	/* A new connection's buffer takes the welcome at once and the dialler sends nothing before it has that, so the
	 * descriptor goes over with no bytes left here; if not so, the other side breaks the rules and is dropped. */
	const struct net_hello from = in->exchange.peer;
	(void)net_link_flush(in->link);
	const struct net_stream stream = net_link_release(in->link);
	mem_free(in);
	if (stream.fd >= 0)
		a->hooks.on_forward(a->hooks.arg, &from, stream);
}

static void on_link_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct incoming *in = arg;
	struct net_acceptor *a = in->a;
	if (is_peer(in)) {
		a->hooks.on_frame(a->hooks.arg, &in->exchange.peer, type, slab, body, len);
		return;
	}
	struct net_hello_out out;
	struct err e;
	const int rc = net_exchange_step(&in->exchange, type, body, len, &out, &e);
	if (out.type) {
		const struct net_piece piece = { .p = out.body, .len = out.len };
		const bool sent = net_link_send(in->link, out.type, &piece, 1);
		assert(sent); /* three small frames at most were ever sent here */
	}
	if (rc) {
		(void)net_link_flush(in->link); /* the other side's log is better for it, nothing else depends on it */
		drop_misfit(in, &e);
	} else if (net_exchange_is_done(&in->exchange)) {
		finish_hello(in);
	}
}

static void on_link_close(void *arg, const struct err *why)
{
	struct incoming *in = arg;
	if (net_is_misfit(why))
		drop_misfit(in, why);
	else
		drop(in);
}

static void on_limit(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	struct incoming *in = CONTAINER_OF(w, struct incoming, limit);
	struct err why;
	err_set(&why, ERR_TIMEOUT, "it did not finish the hello within %d ms", NET_ACCEPT_HELLO_MS);
	drop_misfit(in, &why);
}

/* ---- accepting ---- */

static void make_room(struct net_acceptor *a)
{
	if (a->unfinished_count < NET_ACCEPT_UNFINISHED_MAX)
		return;
	struct incoming *oldest = a->unfinished;
	while (oldest->next)
		oldest = oldest->next;
	drop(oldest);
}

void net_acceptor_add(struct net_acceptor *a, int fd)
{
	struct net_stream stream;
	struct err e;
	if (net_stream_open(a->id.tls, fd, false, &stream, &e)) {
		if (log_allow(&a->rest_limit, 60000))
			log_error("peer.accept_failed", "error=\"%s\"", e.msg);
		return;
	}
	make_room(a);
	struct incoming *in = mem_zalloc(sizeof(*in));
	in->a = a;
	net_peer_text(fd, in->from);
	const struct net_link_hooks hooks = { .arg = in, .on_frame = on_link_frame, .on_close = on_link_close };
	in->link = net_link_new(a->loop, stream, NET_HELLO_FRAME_MAX, &hooks);
	struct net_hello_out none;
	net_exchange_start(&in->exchange, false, NET_PURPOSE_PEER, &a->id, &none);
	net_exchange_set_tls(&in->exchange, stream.tls, NULL);
	ev_timer_init(&in->limit, on_limit, NET_ACCEPT_HELLO_MS / 1000.0, 0);
	ev_timer_start(a->loop, &in->limit);
	list_put(&a->unfinished, in);
	a->unfinished_count++;
}

static void on_rested(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)revents;
	struct net_acceptor *a = CONTAINER_OF(w, struct net_acceptor, rest);
	ev_io_start(loop, &a->io);
}

/* Out of descriptors or memory: leave the port alone for a moment. */
static void take_rest(struct net_acceptor *a, int errnum)
{
	ev_io_stop(a->loop, &a->io);
	ev_timer_set(&a->rest, REST_MS / 1000.0, 0);
	ev_timer_start(a->loop, &a->rest);
	if (log_allow(&a->rest_limit, 60000))
		log_error("peer.accept_failed", "error=\"%s\" remedy=\"raise the limit of open files (ulimit -n)\"",
		          strerror(errnum));
}

static void on_acceptable(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_acceptor *a = CONTAINER_OF(w, struct net_acceptor, io);
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		const int fd = accept4(a->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			net_acceptor_add(a, fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			take_rest(a, errno);
			return;
		} else if (errno == EAGAIN) {
			return;
		}
		/* else that connection was gone before it was accepted */
	}
}

struct net_acceptor *net_acceptor_new(struct ev_loop *loop, int listen_fd, const struct net_identity *id,
                                      const struct net_accept_hooks *hooks)
{
	assert(ev_backend(loop) == EVBACKEND_POLL);
	struct net_acceptor *a = mem_zalloc(sizeof(*a));
	a->loop = loop;
	a->fd = listen_fd;
	a->id = *id;
	a->hooks = *hooks;
	ev_timer_init(&a->rest, on_rested, 0, 0);
	ev_io_init(&a->io, on_acceptable, listen_fd, EV_READ);
	ev_io_start(loop, &a->io);
	return a;
}

void net_acceptor_free(struct net_acceptor *a)
{
	if (!a)
		return;
	ev_io_stop(a->loop, &a->io);
	ev_timer_stop(a->loop, &a->rest);
	while (a->unfinished)
		drop(a->unfinished);
	while (a->peers)
		drop(a->peers);
	close(a->fd);
	mem_free(a);
}

void net_acceptor_set_self(struct net_acceptor *a, const struct net_hello *self)
{
	a->id.self = *self;
}
