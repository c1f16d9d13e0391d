/* Whole sessions between nodes: the input is what the other side sends.
 *
 * The first byte says on which side of a link we stand and whether a hello comes first: 0 strangers' bytes into an
 * accepted link, 1 the same where this node has a secret, 2 and 3 a true hello of purpose peer or forward and then the
 * bytes, 4 the bytes as the answer to a link that we dialled. The second cuts the rest into the sizes it arrives in.
 * What must hold beside memory safety: without a true hello no frame comes out where there is a secret, and no
 * frame is ever larger than the limit.
 */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/accept.h"
#include "net/forward.h"
#include "net/hello.h"
#include "net/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[] = "a secret of the cluster";

static struct ev_loop *loop;
static size_t frames;
static int given = -1;

static void on_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	(void)arg;
	(void)type;
	assert(len <= NET_FRAME_MAX && (slab != NULL) == (len > 0));
	assert(from->name[0] != '\0');
	uint64_t id;
	const uint8_t *rest;
	size_t rest_len;
	if (net_forward_parse(body, len, &id, &rest, &rest_len))
		assert(rest_len + 8 == len);
	frames++;
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	(void)arg;
	(void)from;
	given = stream.fd;
}

static void on_misfit(void *arg, const char *who, const struct err *why)
{
	(void)arg;
	assert(who[0] != '\0' && why->code != 0);
}

static struct net_identity identity(const char *name, bool with_secret)
{
	struct net_identity id = { 0 };
	if (with_secret) {
		id.secrets = (struct net_secrets){ .current = secret, .current_len = sizeof(secret) };
	}
	id.self.cluster_id = 7;
	id.self.incarnation = (uint64_t)name[1];
	(void)snprintf(id.self.name, sizeof(id.self.name), "%s", name);
	(void)snprintf(id.self.addr, sizeof(id.self.addr), "127.0.0.1:7943");
	return id;
}

static void put_frame(int fd, const struct net_hello_out *out)
{
	uint8_t bytes[NET_LINK_HEADER + NET_HELLO_FRAME_MAX] = { 0 };
	put_le32(bytes, (uint32_t)out->len);
	put_le16(bytes + 4, out->type);
	memcpy(bytes + NET_LINK_HEADER, out->body, out->len);
	const ssize_t n = write(fd, bytes, NET_LINK_HEADER + out->len);
	assert(n == (ssize_t)(NET_LINK_HEADER + out->len));
}

/* Greets the acceptor as a true peer would. */
static void greet(int fd, enum net_purpose purpose)
{
	const struct net_identity id = identity("n2", true);
	struct net_exchange x;
	struct net_hello_out out;
	struct err e;
	net_exchange_start(&x, true, purpose, &id, &out);
	while (out.type) {
		put_frame(fd, &out);
		ev_run(loop, EVRUN_NOWAIT);
		ev_run(loop, EVRUN_NOWAIT);
		uint8_t head[NET_LINK_HEADER], body[NET_HELLO_FRAME_MAX];
		ssize_t n = read(fd, head, sizeof(head));
		assert(n == sizeof(head));
		const size_t len = get_le32(head);
		n = len ? read(fd, body, len) : 0;
		assert(n == (ssize_t)len);
		const int rc = net_exchange_step(&x, get_le16(head + 4), body, len, &out, &e);
		assert(rc == 0);
	}
	assert(net_exchange_is_done(&x));
}

static void feed(int fd, const uint8_t *data, size_t size, size_t chunk)
{
	while (size > 0) {
		const size_t n = size < chunk ? size : chunk;
		if (send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			return;
		ev_run(loop, EVRUN_NOWAIT);
		data += n;
		size -= n;
	}
}

static void run_accepted(unsigned mode, int fds[2], const uint8_t *data, size_t size, size_t chunk)
{
	const struct net_identity id = identity("n1", mode > 0);
	const struct net_accept_hooks hooks = {
		.on_frame = on_frame,
		.on_forward = on_forward,
		.on_misfit = on_misfit,
	};
	struct net_acceptor *a = net_acceptor_new(loop, socket(AF_UNIX, SOCK_STREAM, 0), &id, &hooks);
	net_acceptor_add(a, fds[0]);
	if (mode >= 2)
		greet(fds[1], mode == 2 ? NET_PURPOSE_PEER : NET_PURPOSE_FORWARD);
	assert((given >= 0) == (mode == 3));
	feed(fds[1], data, size, chunk);
	ev_run(loop, EVRUN_NOWAIT);
	assert(mode != 1 || frames == 0);
	net_acceptor_free(a);
	if (given >= 0)
		close(given);
	given = -1;
}

/* The dialling side of a link, as net/dial.c has it. */
struct dialled {
	struct net_link *link;
	struct net_exchange x;
};

static void on_dialled_close(void *arg, const struct err *why)
{
	struct dialled *d = arg;
	assert(why->code != 0);
	net_link_free(d->link);
	d->link = NULL;
}

static void on_dialled_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct dialled *d = arg;
	(void)slab;
	if (net_exchange_is_done(&d->x)) {
		frames++;
		return;
	}
	struct net_hello_out out;
	struct err e;
	if (net_exchange_step(&d->x, type, body, len, &out, &e)) {
		net_link_free(d->link);
		d->link = NULL;
	} else if (out.type) {
		(void)net_link_send(d->link, out.type, &(struct net_piece){ .p = out.body, .len = out.len }, 1);
	}
}

static void run_dialled(int fds[2], const uint8_t *data, size_t size, size_t chunk)
{
	const struct net_identity id = identity("n1", true);
	struct dialled d;
	struct net_hello_out out;
	const struct net_link_hooks hooks = { .arg = &d, .on_frame = on_dialled_frame, .on_close = on_dialled_close };
	net_exchange_start(&d.x, true, NET_PURPOSE_PEER, &id, &out);
	d.link = net_link_new(loop, net_stream_plain(fds[0]), NET_HELLO_FRAME_MAX, &hooks);
	(void)net_link_send(d.link, out.type, &(struct net_piece){ .p = out.body, .len = out.len }, 1);
	feed(fds[1], data, size, chunk);
	ev_run(loop, EVRUN_NOWAIT);
	assert(frames == 0);
	net_link_free(d.link);
}

static void swallow(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	if (!loop)
		loop = ev_loop_new(EVBACKEND_POLL);
	log_set_sink(swallow, NULL);
	int fds[2];
	const int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
	assert(rc == 0);
	const int flagged = fcntl(fds[0], F_SETFL, O_NONBLOCK);
	assert(flagged == 0);
	frames = 0;
	const unsigned mode = data[0] % 5;
	const size_t chunk = data[1] ? data[1] : 65536;
	if (mode == 4)
		run_dialled(fds, data + 2, size - 2, chunk);
	else
		run_accepted(mode, fds, data + 2, size - 2, chunk);
	close(fds[1]);
	return 0;
}
