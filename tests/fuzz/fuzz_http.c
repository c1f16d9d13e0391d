/* A whole connection: the input is what a client sends, from the scan of the head to the routing table and the answer.
 *
 * The node behind it was opened and never started, so every route is found, read and answered, and no write goes on.
 * The first byte cuts the rest into the sizes it arrives in. What must hold beside memory safety: what comes back is a
 * row of well-formed answers, nothing follows one that says close, and the same bytes in one piece get the same
 * answers.
 */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "http/conn.h"
#include "http/server.h"
#include "model/commands.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ev_loop *loop;
static struct node *node;
static struct http_server *server;
static struct http_thread *thread;
static struct pool *pool;
static char dir[64];

static void clean_up(void)
{
	char command[96];

	http_thread_free(thread);
	http_server_free(server);
	node_close(node);
	pool_close(pool);
	pool_free(pool);
	ev_loop_destroy(loop);
	(void)snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		(void)fprintf(stderr, "%s is left\n", dir);
}

static void set_up(void)
{
	struct node_options no = {
		.id = "n1", .http_addr = "127.0.0.1:1", .cluster_addr = "127.0.0.1:2", .learner = true
	};
	struct http_options ho = { .listen_fd = -1, .node_id = "n1", .build = "fuzz", .leader_wait_ms = 1 };
	const char *const join[] = { "127.0.0.1:3" };
	struct err e = { 0 };

	if (loop)
		return;
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	(void)snprintf(dir, sizeof(dir), "%s/veena-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	pool = pool_new();
	no.data_dir = dir;
	no.join = join;
	no.join_count = 1;
	no.pool = pool;
	no.max_entry_type = COMMAND_MAX;
	no.heartbeat_ms = 100;
	no.election_ms = 500;
	no.map_gib = 1;
	if (node_open(&no, &node, &e) != 0) {
		(void)fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	loop = ev_loop_new(EVFLAG_AUTO);
	ho.node = node;
	ho.data_dir = dir;
	ho.thread_count = 1;
	if (http_server_new(&ho, &server, &e) != 0)
		abort();
	thread = http_thread_new(server, loop);
	(void)atexit(clean_up);
}

/* One turn of the loop, and what has come back. False: the server has closed. */
static bool turn(int fd, struct buf *out)
{
	ev_run(loop, EVRUN_NOWAIT);
	for (;;) {
		ssize_t n = recv(fd, buf_reserve(out, 65536), 65536, MSG_DONTWAIT);

		if (n <= 0)
			return n < 0;
		buf_advance(out, (size_t)n);
	}
}

/* Sends the bytes in pieces of `piece`, ends the client's side, and collects the answers until the server ends. */
static void converse(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	int fds[2];
	bool open = true;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 || fcntl(fds[1], F_SETFL, O_NONBLOCK) != 0)
		abort();
	http_conn_new(thread, net_stream_plain(fds[1]));
	for (size_t at = 0; at < size && open; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		/* A server that refuses and lingers still reads: the pair's buffer never stays full. */
		while (open && send(fds[0], data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			open = turn(fds[0], out);
		open = open && turn(fds[0], out);
	}
	(void)shutdown(fds[0], SHUT_WR);
	while (open)
		open = turn(fds[0], out);
	close(fds[0]);
	while (thread->connection_count > 0 || svc_outstanding(thread->svc) > 0 || thread->fwd.waiting)
		ev_run(loop, EVRUN_NOWAIT);
	assert(thread->unsent == 0);
}

/* The next status line: error texts speak of HTTP/1.1 too, but never of a status behind it. */
static const char *next_answer(const char *p)
{
	int status;

	while ((p = strstr(p, "HTTP/1.1 ")) && sscanf(p, "HTTP/1.1 %3d ", &status) != 1)
		p++;
	return p;
}

/* Walks the answers; their statuses go to `statuses`. A HEAD's answer has a length and no body, so the walk looks for
 * the next status line instead of believing the length. */
static void check_answers(struct buf *out, struct buf *statuses)
{
	const char *p = buf_cstr(out), *end = p + out->len;

	assert(strlen(p) == out->len);
	while (p < end) {
		const char *stop = strstr(p, "\r\n\r\n");
		const char *close_at = strstr(p, "\r\nConnection: close\r\n");
		int status = 0;

		assert(stop && sscanf(p, "HTTP/1.1 %3d ", &status) == 1 && status >= 100 && status < 600);
		buf_printf(statuses, "%d ", status);
		for (const char *c = p; c < stop; c++)
			assert(*c != '\n' || c[-1] == '\r');
		const char *index_at = strstr(p, "\r\nX-Veena-Index: ");
		const char *next = next_answer(stop + 4);

		assert(!close_at || close_at > stop || !next);
		assert(status == 100 || (index_at && index_at < stop));
		p = next ? next : end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf cut = { 0 }, whole = { 0 }, cut_statuses = { 0 }, whole_statuses = { 0 };

	/* What waits for an index would wait in real time. */
	if (size < 1 || memmem(data, size, "/barrier", 8) || memmem(data, size, "min_index", 9))
		return 0;
	set_up();
	/* A go-ahead depends on whether the body had begun to come, so on the pieces. */
	bool same = !memmem(data, size, "100", 3);

	converse(data + 1, size - 1, (size_t)data[0] + 1, &cut);
	converse(data + 1, size - 1, 1u << 20, &whole);
	check_answers(&cut, &cut_statuses);
	check_answers(&whole, &whole_statuses);
	assert(!same || (cut_statuses.len == whole_statuses.len &&
	                 strcmp(buf_cstr(&cut_statuses), buf_cstr(&whole_statuses)) == 0));
	buf_fini(&cut);
	buf_fini(&whole);
	buf_fini(&cut_statuses);
	buf_fini(&whole_statuses);
	return 0;
}
