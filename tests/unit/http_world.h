/* tests/unit/http_world.h - a whole HTTP thread over a node that the test plays (service_world.h), and clients.
 *
 * Everything runs on one thread: pump() lets the loop take a turn, commits what is proposed, and looks at a condition.
 * For one .c file each.
 */
#ifndef TESTS_UNIT_HTTP_WORLD_H
#define TESTS_UNIT_HTTP_WORLD_H

#include "service_world.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "http/server.h"
#include "http/thread.h"
#include "net/addr.h"

#define PUMP_MS 5000 /* longest wait for anything */

static struct {
	struct ev_loop *loop;
	int listen_fd;
	uint16_t port;
	struct http_server *server;
	struct http_thread *thread;
	struct pool *pool;
	bool hold;  /* proposals wait for the test */
	bool ended; /* ev_run has returned because the thread stopped */
} rig;

static UNUSED uint16_t port_of(int fd)
{
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	return ntohs(sa.sin_port);
}

static UNUSED int listen_loopback(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 512), 0);
	return fd;
}

static UNUSED void rig_open(const struct http_options *wanted)
{
	struct http_options o = wanted ? *wanted : (struct http_options){ 0 };
	struct err e = { 0 };

	memset(&rig, 0, sizeof(rig));
	world_open();
	svc_set_placer(NULL, NULL);
	rig.loop = ev_loop_new(EVFLAG_AUTO);
	rig.listen_fd = listen_loopback();
	rig.port = port_of(rig.listen_fd);
	rig.pool = pool_new();
	o.listen_fd = rig.listen_fd;
	o.node = &world;
	o.pool = rig.pool;
	o.node_id = "n1";
	o.data_dir = world.dir;
	o.build = "test";
	o.max_entry_type = COMMAND_MAX;
	o.thread_count = 1;
	if (http_server_new(&o, &rig.server, &e) != 0)
		fail_msg("%s", e.msg);
	rig.thread = http_thread_new(rig.server, rig.loop);
}

static UNUSED void rig_close(void)
{
	http_thread_free(rig.thread);
	http_server_free(rig.server);
	ev_loop_destroy(rig.loop);
	close(rig.listen_fd);
	pool_close(rig.pool);
	pool_free(rig.pool);
	world_close();
}

static UNUSED int rig_setup(void **state)
{
	(void)state;
	rig_open(NULL);
	return 0;
}

static UNUSED int rig_teardown(void **state)
{
	(void)state;
	rig_close();
	return 0;
}

#define RIG(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

static UNUSED void commit_waiting(void)
{
	while (!rig.hold && world.proposal_count > 0)
		commit_one();
	while (!rig.hold && world.read_count > 0)
		answer_read(0, world.index);
	while (world.history)
		answer_history(0, NODE_HISTORY_ENTRIES);
}

static UNUSED void pump_once(void)
{
	if (!rig.ended)
		rig.ended = !ev_run(rig.loop, EVRUN_NOWAIT);
	pool_turn(rig.pool);
	commit_waiting();
}

static UNUSED void pump_for(uint64_t ms)
{
	uint64_t end = clock_mono_ms() + ms;

	while (clock_mono_ms() < end) {
		pump_once();
		usleep(200);
	}
}

/* ---- clients ---- */

struct client {
	int fd;
	struct buf in;
	bool eof, reset;
};

static UNUSED void client_open(struct client *c)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		                  .sin_port = htons(rig.port) };

	memset(c, 0, sizeof(*c));
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(c->fd >= 0);
	assert_int_equal(connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
}

static UNUSED void client_close(struct client *c)
{
	close(c->fd);
	buf_fini(&c->in);
}

/* What the kernel takes at once; a server that has closed takes nothing. */
static UNUSED size_t client_send_some(struct client *c, const void *bytes, size_t len)
{
	ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);

	return n > 0 ? (size_t)n : 0;
}

static UNUSED void client_recv(struct client *c)
{
	for (;;) {
		uint8_t *to = buf_reserve(&c->in, 65536);
		ssize_t n = recv(c->fd, to, 65536, 0);

		if (n <= 0) {
			c->eof = c->eof || n == 0;
			c->reset = c->reset || (n < 0 && errno == ECONNRESET);
			c->eof = c->eof || c->reset;
			return;
		}
		buf_advance(&c->in, (size_t)n);
	}
}

static UNUSED void client_send(struct client *c, const void *bytes, size_t len)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;
	size_t sent = 0;

	while (sent < len && !c->eof && clock_mono_ms() < end) {
		size_t n = client_send_some(c, (const char *)bytes + sent, len - sent);

		sent += n;
		if (n == 0) {
			pump_once();
			client_recv(c);
		}
	}
}

static UNUSED void client_sends(struct client *c, const char *text)
{
	client_send(c, text, strlen(text));
}

/* Until `n` bytes have come, or the server closed. */
static UNUSED void client_wait(struct client *c, size_t n)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;

	client_recv(c);
	while (c->in.len < n && !c->eof) {
		if (clock_mono_ms() > end)
			fail_msg("nothing more came behind: %s", c->in.len ? buf_cstr(&c->in) : "");
		pump_once();
		client_recv(c);
	}
}

static UNUSED void client_wait_eof(struct client *c)
{
	client_wait(c, SIZE_MAX);
}

/* ---- answers ---- */

struct reply {
	int status;
	char head[2048];
	char body[65536];
	size_t body_len;
};

static UNUSED const char *reply_field(const struct reply *r, const char *name)
{
	static char value[256];
	const char *p = r->head;
	size_t n = strlen(name);

	while ((p = strstr(p, "\r\n"))) {
		p += 2;
		if (strncasecmp(p, name, n) == 0 && strncmp(p + n, ": ", 2) == 0) {
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(p + n + 2, "\r"), p + n + 2);
			return value;
		}
	}
	return NULL;
}

/* Takes one answer off the front; `is_head`: it has no body. */
static UNUSED void client_reply(struct client *c, bool is_head, struct reply *r)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;
	const char *stop;

	memset(r, 0, sizeof(*r));
	while (!(stop = c->in.len ? strstr(buf_cstr(&c->in), "\r\n\r\n") : NULL)) {
		if (c->eof || clock_mono_ms() > end)
			fail_msg("no answer, but: %s", c->in.len ? buf_cstr(&c->in) : "");
		pump_once();
		client_recv(c);
	}
	size_t head = (size_t)(stop - (const char *)c->in.data) + 4;

	assert_true(head < sizeof(r->head));
	memcpy(r->head, c->in.data, head);
	assert_int_equal(sscanf(r->head, "HTTP/1.1 %d ", &r->status), 1);
	const char *length = reply_field(r, "Content-Length");

	r->body_len = length && !is_head ? (size_t)atol(length) : 0;
	assert_true(r->body_len < sizeof(r->body));
	client_wait(c, head + r->body_len);
	memcpy(r->body, c->in.data + head, r->body_len);
	buf_consume(&c->in, head + r->body_len);
}

static UNUSED void client_ask(struct client *c, const char *request, struct reply *r)
{
	client_sends(c, request);
	client_reply(c, strncmp(request, "HEAD", 4) == 0, r);
}

/* One request on a connection of its own. */
static UNUSED void ask_once(const char *request, struct reply *r)
{
	struct client c;

	client_open(&c);
	client_ask(&c, request, r);
	client_close(&c);
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"
#define JSON_POST "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

static UNUSED const char *create_request(const char *name)
{
	static char bytes[512];
	char body[128];

	snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
	snprintf(bytes, sizeof(bytes), JSON_POST "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
	return bytes;
}

static UNUSED void assert_reply(const struct reply *r, int status, const char *code)
{
	char want[80];

	if (r->status != status)
		fail_msg("answered %s%s", r->head, r->body);
	if (!code)
		return;
	snprintf(want, sizeof(want), "\"code\":\"%s\"", code);
	if (!strstr(r->body, want))
		fail_msg("no %s in %s", want, r->body);
}

#endif /* TESTS_UNIT_HTTP_WORLD_H */
