/* Each callback ends with at most one hook as its last act, since the hook may free the dial. */
#include "net/dial.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "net/addr.h"
#include "net/lookup.h"

#define CONNECT_MS 1500 /* for each address */
#define HELLO_MS 3000
#define LOOKUP_RETRY_MS 20 /* while another look-up runs */
#define DELAY_MIN_MS 100   /* waits are drawn from half to one and a half of it */
#define DELAY_MAX_MS 666
#define STEADY_MS 1000 /* a link that lived so long was a good one: begin with short waits again */

enum dial_state { DIAL_WAITING, DIAL_LOOKING_UP, DIAL_CONNECTING, DIAL_HELLO, DIAL_UP };
enum dial_report { REPORT_NONE, REPORT_UP, REPORT_DOWN, REPORT_REFUSED };

struct net_dialler {
	struct ev_loop *loop;
	struct pool *pool;
	struct net_identity id;
	struct rand rand;
	struct net_bell *bell;
	ev_io bell_io;
	struct net_dial *dials;
};

struct net_dial {
	struct net_dialler *m;
	struct net_dial *next;
	char text[NET_ADDR_MAX + 1];
	struct net_addr addr;
	enum net_purpose purpose;
	struct net_dial_hooks hooks;
	enum dial_state state;
	enum dial_report reported;
	uint64_t delay_ms; /* centre of the next wait */
	uint64_t up_since_ms;
	ev_timer timer; /* of the state: wait, retry or limit */
	struct net_lookup *lookup;
	struct net_resolved found; /* last good answer */
	size_t tried;              /* addresses of `found` tried in this attempt */
	bool all_refused;          /* each of them refused */
	bool by_previous;          /* prove by the previous secret: the current one was not taken */
	struct err why;            /* why the last address failed */
	int fd;                    /* while connecting, else -1 */
	ev_io connect_io;
	struct net_link *link; /* hello and up */
	struct net_exchange exchange;
};

static void try_next_address(struct net_dial *d);

static void set_timer(struct net_dial *d, uint64_t ms)
{
	ev_timer_stop(d->m->loop, &d->timer);
	/* The loop's idea of now is as old as its turn; a wait must not be shorter for it. */
	ev_now_update(d->m->loop);
	ev_timer_set(&d->timer, (double)ms / 1000, 0);
	ev_timer_start(d->m->loop, &d->timer);
}

/* Back to nothing: no look-up, no descriptor, no link. */
static void drop_attempt(struct net_dial *d)
{
	ev_timer_stop(d->m->loop, &d->timer);
	ev_io_stop(d->m->loop, &d->connect_io);
	net_lookup_free(d->lookup);
	d->lookup = NULL;
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	net_link_free(d->link);
	d->link = NULL;
}

/* The attempt or the link is over: wait, and tell the owner. Last act of its caller. */
static void fail(struct net_dial *d, bool refused, const struct err *why)
{
	const struct err copy = *why;
	if (d->state == DIAL_UP && clock_mono_ms() - d->up_since_ms >= STEADY_MS)
		d->delay_ms = DELAY_MIN_MS;
	drop_attempt(d);
	d->state = DIAL_WAITING;
	set_timer(d, d->delay_ms / 2 + rand_below(&d->m->rand, d->delay_ms + 1));
	d->delay_ms = d->delay_ms * 2 < DELAY_MAX_MS ? d->delay_ms * 2 : DELAY_MAX_MS;

	const enum dial_report report = refused ? REPORT_REFUSED : REPORT_DOWN;
	const bool is_news = d->reported != report;
	d->reported = report;
	d->hooks.on_failed(d->hooks.arg, d, is_news, refused, &copy);
}

/* ---- hello and up ---- */

static void send_out(struct net_dial *d, const struct net_hello_out *out)
{
	const struct net_piece piece = { .p = out->body, .len = out->len };
	const bool sent = net_link_send(d->link, out->type, &piece, 1);
	assert(sent); /* a link that is new takes a small frame */
}

static void on_link_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct net_dial *d = arg;
	if (d->state == DIAL_UP) {
		d->hooks.on_frame(d->hooks.arg, d, type, slab, body, len);
		return;
	}
	struct net_hello_out out;
	struct err e;
	const int rc = net_exchange_step(&d->exchange, type, body, len, &out, &e);
	if (rc) {
		/* While a secret is replaced node by node: perhaps it still has the old one. */
		if (d->exchange.refusal == NET_REFUSED_PROOF && d->m->id.secrets.previous)
			d->by_previous = !d->by_previous;
		fail(d, false, &e);
		return;
	}
	if (out.type)
		send_out(d, &out);
	if (!net_exchange_is_done(&d->exchange))
		return;
	ev_timer_stop(d->m->loop, &d->timer);
	net_link_set_frame_max(d->link, NET_FRAME_MAX);
	d->state = DIAL_UP;
	d->reported = REPORT_UP;
	d->up_since_ms = clock_mono_ms();
	d->hooks.on_up(d->hooks.arg, d, &d->exchange.peer);
}

static void on_link_close(void *arg, const struct err *why)
{
	fail(arg, false, why);
}

static void begin_hello(struct net_dial *d)
{
	const struct net_link_hooks hooks = { .arg = d, .on_frame = on_link_frame, .on_close = on_link_close };
	struct net_stream stream;
	struct err e;
	ev_io_stop(d->m->loop, &d->connect_io);
	const int rc = net_stream_open(d->m->id.tls, d->fd, true, &stream, &e);
	d->fd = -1;
	if (rc) {
		fail(d, false, &e);
		return;
	}
	d->link = net_link_new(d->m->loop, stream, NET_HELLO_FRAME_MAX, &hooks);
	d->state = DIAL_HELLO;
	set_timer(d, HELLO_MS);
	struct net_hello_out out;
	net_exchange_start(&d->exchange, true, d->purpose, &d->m->id, &out);
	d->exchange.previous = d->by_previous;
	net_exchange_set_tls(&d->exchange, stream.tls, d->addr.host);
	send_out(d, &out);
}

/* ---- connecting ---- */

static void connect_failed(struct net_dial *d, int errnum)
{
	ev_io_stop(d->m->loop, &d->connect_io);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	if (errnum != ECONNREFUSED)
		d->all_refused = false;
	const int code = errnum == ETIMEDOUT ? ERR_TIMEOUT : ERR_CLOSED;
	err_set_errno(&d->why, code, errnum, "cannot connect to %s", d->text);
	try_next_address(d);
}

/* With nobody listening, a port of the ephemeral range can connect to itself, and would then keep the peer from
 * binding it. */
static bool is_self_connected(int fd)
{
	struct sockaddr_storage mine, theirs;
	memset(&mine, 0, sizeof(mine));
	memset(&theirs, 0, sizeof(theirs));
	socklen_t mine_len = sizeof(mine), theirs_len = sizeof(theirs);
	return getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&theirs, &theirs_len) == 0 && mine_len == theirs_len &&
	       memcmp(&mine, &theirs, mine_len) == 0;
}

static void on_connected(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_dial *d = CONTAINER_OF(w, struct net_dial, connect_io);
	int errnum = 0;
	socklen_t len = sizeof(errnum);
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
		errnum = errno;
	if (errnum == 0 && is_self_connected(d->fd))
		errnum = ECONNREFUSED;
	if (errnum)
		connect_failed(d, errnum);
	else
		begin_hello(d);
}

static void try_next_address(struct net_dial *d)
{
	if (d->tried == d->found.count) {
		fail(d, d->all_refused, &d->why);
		return;
	}
	const struct sockaddr *addr = (const struct sockaddr *)&d->found.items[d->tried].addr;
	const socklen_t len = d->found.items[d->tried].len;
	d->tried++;
	d->state = DIAL_CONNECTING;
	set_timer(d, CONNECT_MS);
	d->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0 || (connect(d->fd, addr, len) < 0 && errno != EINPROGRESS)) {
		connect_failed(d, errno);
		return;
	}
	/* Also when it is connected already: writable at once. */
	ev_io_set(&d->connect_io, d->fd, EV_WRITE);
	ev_io_start(d->m->loop, &d->connect_io);
}

/* ---- looking up ---- */

static void begin_connecting(struct net_dial *d)
{
	d->tried = 0;
	d->all_refused = true;
	try_next_address(d);
}

static void begin_attempt(struct net_dial *d)
{
	struct err e;
	if (net_addr_is_numeric(&d->addr)) {
		if (net_resolve(&d->addr, &d->found, &e) == 0)
			begin_connecting(d);
		else
			fail(d, false, &e);
		return;
	}
	d->state = DIAL_LOOKING_UP;
	d->lookup = net_lookup_start(d->m->pool, d->m->bell, &d->addr);
	if (!d->lookup)
		set_timer(d, LOOKUP_RETRY_MS);
}

static void finish_lookup(struct net_dial *d)
{
	int rc;
	struct err e;
	struct net_resolved found;
	if (!net_lookup_is_done(d->lookup, &rc, &found, &e))
		return;
	net_lookup_free(d->lookup);
	d->lookup = NULL;
	if (rc == 0)
		d->found = found;
	/* A name server that is down must not cut off a peer that is where it was. */
	if (d->found.count > 0)
		begin_connecting(d);
	else
		fail(d, false, &e);
}

static void on_bell(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_dialler *m = CONTAINER_OF(w, struct net_dialler, bell_io);
	wake_clear(&m->bell->wake);
	wake_prepare(&m->bell->wake);
	/* Hooks may free any dial, so none is walked over: each timer asks for its own dial at once. */
	for (struct net_dial *d = m->dials; d; d = d->next) {
		if (d->lookup)
			set_timer(d, 0);
	}
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_dial *d = CONTAINER_OF(w, struct net_dial, timer);
	struct err e;
	switch (d->state) {
	case DIAL_WAITING: begin_attempt(d); return;
	case DIAL_LOOKING_UP:
		if (d->lookup)
			finish_lookup(d);
		else
			begin_attempt(d);
		return;
	case DIAL_CONNECTING: connect_failed(d, ETIMEDOUT); return;
	case DIAL_HELLO:
		err_set(&e, ERR_TIMEOUT, "%s did not finish the hello within %d ms", d->text, HELLO_MS);
		fail(d, false, &e);
		return;
	case DIAL_UP: return;
	}
}

/* ---- making and ending ---- */

bool net_is_misfit(const struct err *why)
{
	return why->code == ERR_IDENTITY || why->code == ERR_VERSION || why->code == ERR_CORRUPT ||
	       why->code == ERR_TOO_LARGE;
}

int net_dial_new(struct net_dialler *m, const char *addr, enum net_purpose purpose, const struct net_dial_hooks *hooks,
                 struct net_dial **out, struct err *e)
{
	struct net_addr parsed;
	const int rc = net_addr_parse(addr, &parsed, e);
	if (rc)
		return rc;
	struct net_dial *d = mem_zalloc(sizeof(*d));
	d->m = m;
	(void)snprintf(d->text, sizeof(d->text), "%s", addr); /* what parses is not longer */
	d->addr = parsed;
	d->purpose = purpose;
	d->hooks = *hooks;
	d->delay_ms = DELAY_MIN_MS;
	d->fd = -1;
	ev_init(&d->timer, on_timer);
	ev_init(&d->connect_io, on_connected);
	d->next = m->dials;
	m->dials = d;
	set_timer(d, 0);
	*out = d;
	return 0;
}

void net_dial_free(struct net_dial *d)
{
	if (!d)
		return;
	drop_attempt(d);
	struct net_dial **at = &d->m->dials;
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	mem_free(d);
}

struct net_link *net_dial_link(const struct net_dial *d)
{
	return d->state == DIAL_UP ? d->link : NULL;
}

const char *net_dial_addr(const struct net_dial *d)
{
	return d->text;
}

struct net_dialler *net_dialler_new(struct ev_loop *loop, struct pool *pool, const struct net_identity *id)
{
	struct net_dialler *m = mem_zalloc(sizeof(*m));
	m->loop = loop;
	m->pool = pool;
	m->id = *id;
	uint64_t seed;
	rand_secure(&seed, sizeof(seed));
	rand_seed(&m->rand, seed);
	m->bell = net_bell_new();
	wake_prepare(&m->bell->wake);
	ev_io_init(&m->bell_io, on_bell, m->bell->wake.fd, EV_READ);
	ev_io_start(loop, &m->bell_io);
	return m;
}

void net_dialler_free(struct net_dialler *m)
{
	if (!m)
		return;
	assert(!m->dials);
	ev_io_stop(m->loop, &m->bell_io);
	net_bell_unref(m->bell);
	mem_free(m);
}

void net_dialler_set_self(struct net_dialler *m, const struct net_hello *self)
{
	m->id.self = *self;
}
