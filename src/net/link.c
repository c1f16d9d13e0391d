/* Good path: readv takes the rest of the body being read straight into its slab and what follows into a buffer on the
 * stack; frames found there get a slab of their own. Sends are queued as pieces and leave in one sendmsg when the loop
 * is about to block (flusher, of the lowest priority, so that it runs behind whoever sends from a prepare watcher).
 * Ways to fail: end of stream, a socket error, a frame that breaks the rules. All end in end_link, once.
 *
 * Hooks may free the link. So each watcher's callback brackets its work with enter and leave, and after any hook asks
 * is_over before it touches anything.
 */
#include "net/link.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/slab.h"

#define READ_CHUNK ((size_t)64 << 10)
#define READS_PER_TURN 16                /* then others of the loop get their turn */
#define WRITE_TURN_MAX ((size_t)4 << 20) /* bytes, likewise */
#define IOV_COUNT 64
#define COPY_BELOW 512     /* bytes; copying a small piece is cheaper than a count and an iovec of its own */
#define FRAME_OVERHEAD 64  /* what a queued frame costs beside its bytes; keeps tiny frames within the bound too */
#define DEAD_AFTER_MS 5000 /* bytes unacknowledged for so long: the other side is gone, whatever TCP still hopes */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_EVERY_S 5
#define KEEPALIVE_COUNT 3

/* A run of bytes to send; holds a count of `slab`. */
struct run {
	const uint8_t *p;
	size_t len;
	struct slab *slab;
	size_t overhead; /* given back to `unsent` with the run's last byte */
};

struct net_link {
	struct ev_loop *loop;
	struct net_stream stream;
	size_t frame_max;
	struct net_link_hooks hooks;
	bool paused;
	ev_io reader;
	ev_io writer; /* runs only while the kernel's buffer is full */
	ev_prepare flusher;
	ev_timer again; /* bytes wait that the descriptor does not show: next turn */

	uint8_t header[NET_LINK_HEADER];
	size_t header_len;
	uint16_t type;     /* of the body being read */
	struct slab *body; /* NULL between frames; len grows up to body_len */
	size_t body_len;
	size_t pending; /* bytes read and not yet looked at, while hooks run */

	struct run *runs;                     /* ring */
	size_t run_first, run_count, run_cap; /* cap: a power of two */
	size_t unsent;

	unsigned depth; /* callbacks on the stack */
	bool ended;     /* on_close was called, or the descriptor was given away */
	bool freed;     /* by its owner, while depth > 0 */
};

static void enter(struct net_link *l)
{
	l->depth++;
}

static void leave(struct net_link *l)
{
	assert(l->depth > 0);
	l->depth--;
	if (l->freed && l->depth == 0)
		mem_free(l);
}

static bool is_over(const struct net_link *l)
{
	return l->ended || l->freed;
}

/* Everything but the struct itself. May run twice. */
static void drop_all(struct net_link *l)
{
	ev_io_stop(l->loop, &l->reader);
	ev_io_stop(l->loop, &l->writer);
	ev_prepare_stop(l->loop, &l->flusher);
	ev_timer_stop(l->loop, &l->again);
	net_stream_close(&l->stream);
	slab_unref(l->body);
	l->body = NULL;
	for (; l->run_count > 0; l->run_count--) {
		slab_unref(l->runs[l->run_first].slab);
		l->run_first = (l->run_first + 1) & (l->run_cap - 1);
	}
	mem_free(l->runs);
	l->runs = NULL;
	l->run_cap = 0;
	l->run_first = 0;
	l->unsent = 0;
}

static void end_link(struct net_link *l, const struct err *why)
{
	assert(!is_over(l));
	l->ended = true;
	drop_all(l);
	l->hooks.on_close(l->hooks.arg, why);
}

static void end_link_errno(struct net_link *l, int errnum, const char *what)
{
	struct err why;
	if (errnum == ECONNRESET || errnum == EPIPE)
		err_set(&why, ERR_CLOSED, "the other side reset the connection");
	else if (errnum == ETIMEDOUT)
		err_set(&why, ERR_TIMEOUT, "the other side did not acknowledge what was sent");
	else if (errnum == EPROTO && l->stream.tls)
		err_set(&why, ERR_IDENTITY, "%s", net_stream_why(&l->stream));
	else
		err_set_errno(&why, ERR_IO, errnum, "%s", what);
	end_link(l, &why);
}

/* ---- reading ---- */

static void deliver(struct net_link *l)
{
	struct slab *const slab = l->body;
	l->body = NULL;
	l->header_len = 0;
	l->hooks.on_frame(l->hooks.arg, l->type, slab, slab ? slab->data : NULL, slab ? slab->len : 0);
	slab_unref(slab);
}

/* A ClientHello: a record of type 22 of some version 3.x. As a frame it would be far longer than may come first. */
static bool is_tls_hello(const struct net_link *l)
{
	return !l->stream.tls && l->header[0] == 22 && l->header[1] == 3 && get_le32(l->header) > l->frame_max;
}

/* The header is complete: checks it and makes room. False: the link has ended. */
static bool begin_body(struct net_link *l)
{
	const size_t len = get_le32(l->header);
	l->type = get_le16(l->header + 4);
	struct err why;
	if (is_tls_hello(l)) {
		err_set(
		    &why, ERR_IDENTITY,
		    "it speaks TLS and this node does not; give all nodes --cluster-tls-cert, -key and -ca, or none");
		end_link(l, &why);
		return false;
	}
	if (get_le16(l->header + 6) != 0) {
		err_set(&why, ERR_CORRUPT, "these are no frames of this protocol");
		end_link(l, &why);
		return false;
	}
	if (len > l->frame_max) {
		err_set(&why, ERR_TOO_LARGE, "a frame of %zu bytes, at most %zu are allowed here", len, l->frame_max);
		end_link(l, &why);
		return false;
	}
	l->body_len = len;
	if (len == 0)
		return true;
	l->body = slab_try_new(len);
	if (!l->body) {
		err_set(&why, ERR_NOMEM, "no memory for a frame of %zu bytes", len);
		end_link(l, &why);
		return false;
	}
	return true;
}

static bool is_body_complete(const struct net_link *l)
{
	return l->header_len == NET_LINK_HEADER && (l->body_len == 0 || l->body->len == l->body_len);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void consume(struct net_link *l, const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t took;
		if (l->header_len < NET_LINK_HEADER) {
			took = least(n, NET_LINK_HEADER - l->header_len);
			memcpy(l->header + l->header_len, p, took);
			l->header_len += took;
			if (l->header_len == NET_LINK_HEADER && !begin_body(l))
				return;
		} else {
			took = least(n, l->body_len - l->body->len);
			memcpy(l->body->data + l->body->len, p, took);
			l->body->len += took;
		}
		p += took;
		n -= took;
		l->pending = n;
		if (is_body_complete(l))
			deliver(l);
		if (is_over(l))
			return;
	}
}

/* One read. False: there is no more for now, or the link is over. */
static bool read_once(struct net_link *l)
{
	uint8_t chunk[READ_CHUNK];
	struct iovec iov[2];
	size_t count = 0;
	const size_t body_left = l->body ? l->body_len - l->body->len : 0;
	if (body_left > 0)
		iov[count++] = (struct iovec){ l->body->data + l->body->len, body_left };
	iov[count++] = (struct iovec){ chunk, sizeof(chunk) };

	const ssize_t n = net_stream_recvv(&l->stream, iov, count);
	if (n == 0)
		return false;
	if (n == -ENODATA) {
		struct err why;
		err_set(&why, ERR_CLOSED, "the other side closed the connection");
		end_link(l, &why);
		return false;
	}
	if (n < 0) {
		end_link_errno(l, (int)-n, "reading from the connection");
		return false;
	}
	const size_t got = (size_t)n;
	const size_t direct = least(got, body_left);
	if (direct > 0) {
		l->body->len += direct;
		l->pending = got - direct;
		if (is_body_complete(l))
			deliver(l);
	}
	if (!is_over(l))
		consume(l, chunk, got - direct);
	return !is_over(l) && got == body_left + sizeof(chunk);
}

static void read_some(struct net_link *l)
{
	enter(l);
	for (int i = 0; i < READS_PER_TURN && read_once(l) && !l->paused; i++)
		;
	if (!is_over(l) && !l->paused && net_stream_has_more(&l->stream))
		ev_timer_start(l->loop, &l->again);
	leave(l);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	read_some(CONTAINER_OF(w, struct net_link, reader));
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	read_some(CONTAINER_OF(w, struct net_link, again));
}

/* ---- writing ---- */

/* A run of len 0 is the caller's to fill. */
static struct run *push_run(struct net_link *l)
{
	if (l->run_count == l->run_cap) {
		const size_t cap = l->run_cap ? l->run_cap * 2 : 16;
		struct run *runs = mem_alloc(cap * sizeof(*runs));
		for (size_t i = 0; i < l->run_count; i++)
			runs[i] = l->runs[(l->run_first + i) & (l->run_cap - 1)];
		mem_free(l->runs);
		l->runs = runs;
		l->run_cap = cap;
		l->run_first = 0;
	}
	struct run *r = &l->runs[(l->run_first + l->run_count++) & (l->run_cap - 1)];
	memset(r, 0, sizeof(*r));
	return r;
}

static bool is_copied(const struct net_piece *piece)
{
	return !piece->slab || piece->len < COPY_BELOW;
}

bool net_link_send(struct net_link *l, uint16_t type, const struct net_piece *pieces, size_t count)
{
	size_t total = 0, copied = NET_LINK_HEADER;
	for (size_t i = 0; i < count; i++) {
		total += pieces[i].len;
		if (is_copied(&pieces[i]))
			copied += pieces[i].len;
	}
	assert(total <= NET_FRAME_MAX);
	const size_t cost = NET_LINK_HEADER + total + FRAME_OVERHEAD;
	if (is_over(l) || l->unsent + cost > NET_LINK_UNSENT_MAX)
		return false;
	l->unsent += cost;

	/* One slab for the header and all that is copied; the runs into it are cut where a piece of its own comes. */
	struct slab *s = slab_new(copied);
	put_le32(s->data, (uint32_t)total);
	put_le16(s->data + 4, type);
	put_le16(s->data + 6, 0);
	s->len = NET_LINK_HEADER;
	struct run *r = push_run(l);
	*r = (struct run){ .p = s->data, .len = NET_LINK_HEADER, .slab = s };
	bool is_open = true; /* r ends where s->len does */
	for (size_t i = 0; i < count; i++) {
		const struct net_piece *piece = &pieces[i];
		if (piece->len == 0)
			continue;
		if (!is_copied(piece)) {
			r = push_run(l);
			*r = (struct run){ .p = piece->p, .len = piece->len, .slab = slab_ref(piece->slab) };
			is_open = false;
			continue;
		}
		if (!is_open) {
			r = push_run(l);
			*r = (struct run){ .p = s->data + s->len, .slab = slab_ref(s) };
			is_open = true;
		}
		memcpy(s->data + s->len, piece->p, piece->len);
		s->len += piece->len;
		r->len += piece->len;
	}
	r->overhead = FRAME_OVERHEAD;
	return true;
}

static void pop_bytes(struct net_link *l, size_t n)
{
	while (n > 0) {
		struct run *r = &l->runs[l->run_first];
		const size_t took = least(n, r->len);
		r->p += took;
		r->len -= took;
		l->unsent -= took;
		n -= took;
		if (r->len > 0)
			return;
		l->unsent -= r->overhead;
		slab_unref(r->slab);
		l->run_first = (l->run_first + 1) & (l->run_cap - 1);
		l->run_count--;
	}
}

/* Hands the kernel what it takes; 0 or the errno that came instead. */
static int write_runs(struct net_link *l)
{
	size_t sent = 0;
	while (l->run_count > 0 && sent < WRITE_TURN_MAX) {
		struct iovec iov[IOV_COUNT];
		const size_t count = least(l->run_count, IOV_COUNT);
		for (size_t i = 0; i < count; i++) {
			const struct run *r = &l->runs[(l->run_first + i) & (l->run_cap - 1)];
			/* sendmsg does not write through it */
			iov[i] = (struct iovec){ (void *)(uintptr_t)r->p, r->len };
		}
		const ssize_t n = net_stream_sendv(&l->stream, iov, count);
		if (n == 0)
			break;
		if (n < 0)
			return (int)-n;
		pop_bytes(l, (size_t)n);
		sent += (size_t)n;
	}
	return 0;
}

/* Under TLS a read may wait for room to write, and a write for bytes to read: the first starts the writer, the second
 * is tried again in each turn. */
static void flush(struct net_link *l)
{
	enter(l);
	const int errnum = write_runs(l);
	if (errnum)
		end_link_errno(l, errnum, "writing to the connection");
	else if (net_stream_waits(&l->stream, !l->paused, l->run_count > 0) & NET_WRITE)
		ev_io_start(l->loop, &l->writer);
	else
		ev_io_stop(l->loop, &l->writer);
	leave(l);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_link *l = CONTAINER_OF(w, struct net_link, flusher);
	if (!ev_is_active(&l->writer) &&
	    (l->run_count > 0 || net_stream_waits(&l->stream, !l->paused, false) & NET_WRITE))
		flush(l);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	struct net_link *l = CONTAINER_OF(w, struct net_link, writer);
	enter(l);
	if (!l->paused && net_stream_waits(&l->stream, true, false) & NET_WRITE)
		read_some(l);
	if (!is_over(l))
		flush(l);
	leave(l);
}

/* ---- the rest ---- */

/* Without these a peer that vanished is noticed after a quarter of an hour, and a healed network is used again only
 * when TCP's next retransmission comes. Failures are left alone: they cost detection time, no correctness, and tests
 * use sockets that know none of the options. */
static void set_options(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_AFTER_MS },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT },
	};
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

struct net_link *net_link_new(struct ev_loop *loop, struct net_stream stream, size_t frame_max,
                              const struct net_link_hooks *hooks)
{
	const int fd = stream.fd;
	assert(fd >= 0 && frame_max <= NET_FRAME_MAX);
	struct net_link *l = mem_zalloc(sizeof(*l));
	l->loop = loop;
	l->stream = stream;
	l->frame_max = frame_max;
	l->hooks = *hooks;
	set_options(fd);
	ev_io_init(&l->reader, on_readable, fd, EV_READ);
	ev_io_init(&l->writer, on_writable, fd, EV_WRITE);
	ev_timer_init(&l->again, on_again, 0, 0);
	ev_prepare_init(&l->flusher, on_prepare);
	ev_set_priority(&l->flusher, EV_MINPRI);
	ev_io_start(loop, &l->reader);
	ev_prepare_start(loop, &l->flusher);
	if (net_stream_has_more(&l->stream))
		ev_timer_start(loop, &l->again);
	return l;
}

void net_link_free(struct net_link *l)
{
	if (!l)
		return;
	assert(!l->freed);
	drop_all(l);
	l->freed = true;
	if (l->depth == 0)
		mem_free(l);
}

size_t net_link_unsent(const struct net_link *l)
{
	return l->unsent;
}

bool net_link_flush(struct net_link *l)
{
	/* An error is left for the next turn's flush, where the hook may be called. */
	return !is_over(l) && write_runs(l) == 0 && l->run_count == 0;
}

void net_link_pause(struct net_link *l, bool paused)
{
	if (is_over(l))
		return;
	l->paused = paused;
	if (paused) {
		ev_io_stop(l->loop, &l->reader);
		ev_timer_stop(l->loop, &l->again);
		return;
	}
	ev_io_start(l->loop, &l->reader);
	if (net_stream_has_more(&l->stream))
		ev_timer_start(l->loop, &l->again);
}

void net_link_set_frame_max(struct net_link *l, size_t frame_max)
{
	assert(frame_max <= NET_FRAME_MAX);
	l->frame_max = frame_max;
}

void net_link_set_hooks(struct net_link *l, const struct net_link_hooks *hooks)
{
	l->hooks = *hooks;
}

const struct net_stream *net_link_stream(const struct net_link *l)
{
	return &l->stream;
}

struct net_stream net_link_release(struct net_link *l)
{
	struct net_stream stream = net_stream_plain(-1);
	if (!is_over(l) && l->run_count == 0 && l->header_len == 0 && l->pending == 0) {
		stream = l->stream;
		l->stream = net_stream_plain(-1);
	}
	net_link_free(l);
	return stream;
}
