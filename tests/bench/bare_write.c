/* tests/bench/bare_write.c - the bound of durable writes: HTTP, a synced append here and on one of two peers.
 *
 *   bare_write peer PORT DIR
 *   bare_write leader PORT DIR PEER_PORT PEER_PORT VALUE_FILE
 *
 * The leader answers a request with VALUE_FILE once its bytes are synced in its own file and in that of one peer. All
 * requests that are there when a turn begins share one append and one sync, the peers' syncs run while the leader's
 * own does, and the files are zero-filled before: what is left of a replicated write when consensus, commands, state
 * machine and checks are taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>

#include "base/mem.h"
#include "tests/bench/bare.h"

#define FILE_BYTES ((off_t)64 << 20)
#define CONNS_MAX 256
#define BATCH_MAX ((size_t)1 << 20)
#define FRAME_HEAD 12 /* u32 length, u64 batch number */

struct log_file {
	int fd;
	off_t at;
};

struct conn {
	int fd; /* -1: free */
	struct buf in;
	unsigned owed; /* requests of this batch to answer */
};

struct peer {
	int fd;
	uint64_t acked;
	struct buf in;
};

struct leader {
	struct log_file log;
	struct peer peers[2];
	struct conn conns[CONNS_MAX];
	struct pollfd polls[CONNS_MAX + 3];
	struct buf batch; /* frame head and payload */
	uint64_t batch_number;
	struct buf answer;
};

static struct log_file open_log(const char *dir)
{
	char path[4096];
	static uint8_t zeros[1 << 20];
	struct log_file l = { 0 };

	snprintf(path, sizeof(path), "%s/log", dir);
	l.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (l.fd < 0)
		bare_die(path);
	for (off_t at = 0; at < FILE_BYTES; at += (off_t)sizeof(zeros)) {
		if (pwrite(l.fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
			bare_die(path);
	}
	if (fsync(l.fd) != 0)
		bare_die(path);
	return l;
}

/* From the start again when full: a bound needs no history. */
static void append(struct log_file *l, const void *bytes, size_t len)
{
	if (l->at + (off_t)len > FILE_BYTES)
		l->at = 0;
	if (pwrite(l->fd, bytes, len, l->at) != (ssize_t)len)
		bare_die("pwrite");
	l->at += (off_t)len;
}

static void sync_log(struct log_file *l)
{
	if (fdatasync(l->fd) != 0)
		bare_die("fdatasync");
}

static void write_all(int fd, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len > 0) {
		const ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd w = { .fd = fd, .events = POLLOUT };

			(void)poll(&w, 1, 1000);
			continue;
		}
		if (n <= 0)
			bare_die("write");
		p += n;
		len -= (size_t)n;
	}
}

/* Reads what is there; false at the end of the stream. */
static bool read_some(int fd, struct buf *in)
{
	const ssize_t n = recv(fd, buf_reserve(in, 65536), 65536, MSG_DONTWAIT);

	if (n > 0)
		buf_advance(in, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- a peer ---- */

/* Every whole frame that has arrived shares one sync; the answer is the number of the last. */
static void run_peer(const char *port, const char *dir)
{
	struct log_file log = open_log(dir);
	const int fd = accept4(bare_listen(port), NULL, NULL, SOCK_CLOEXEC);
	struct buf in = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		bare_die("accept");
	bare_no_delay(fd);
	while (poll(&p, 1, -1) >= 0 && read_some(fd, &in)) {
		size_t used = 0;
		uint8_t ack[8];

		while (in.len - used >= FRAME_HEAD) {
			const size_t len = FRAME_HEAD + get_le32(in.data + used);

			if (in.len - used < len)
				break;
			append(&log, in.data + used, len);
			put_le64(ack, get_le64(in.data + used + 4));
			used += len;
		}
		if (used == 0)
			continue;
		sync_log(&log);
		write_all(fd, ack, sizeof(ack));
		buf_consume(&in, used);
	}
}

/* ---- the leader ---- */

static void connect_peer(struct peer *p, const char *port)
{
	const struct sockaddr_in a = bare_addr(port);

	/* A peer first fills its file with zeros, so it may not listen yet. */
	for (unsigned tries = 0;; tries++) {
		p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (p->fd >= 0 && connect(p->fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
			break;
		if (p->fd < 0 || errno != ECONNREFUSED || tries == 500)
			bare_die("connect");
		close(p->fd);
		usleep(20000);
	}
	bare_no_delay(p->fd);
}

static void take_acks(struct peer *p)
{
	size_t used = 0;

	if (!read_some(p->fd, &p->in))
		bare_die("peer");
	for (; p->in.len - used >= 8; used += 8)
		p->acked = get_le64(p->in.data + used);
	buf_consume(&p->in, used);
}

static void accept_conn(struct leader *l, int listen_fd)
{
	const int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (size_t i = 0; i < CONNS_MAX; i++) {
		if (l->conns[i].fd < 0) {
			bare_no_delay(fd);
			l->conns[i].fd = fd;
			return;
		}
	}
	close(fd);
}

/* Moves the whole requests of one connection into the batch. */
static void take_requests(struct leader *l, struct conn *c)
{
	size_t used = 0, len;
	struct str target;

	if (!read_some(c->fd, &c->in)) {
		close(c->fd);
		c->fd = -1;
		buf_clear(&c->in);
		return;
	}
	while (l->batch.len < BATCH_MAX && (len = bare_request(c->in.data + used, c->in.len - used, &target)) > 0) {
		buf_put(&l->batch, c->in.data + used, len);
		used += len;
		c->owed++;
	}
	buf_consume(&c->in, used);
}

/* Here and on one peer: to the peers first, so that they sync while we do. */
static void make_durable(struct leader *l)
{
	put_le32(l->batch.data, (uint32_t)(l->batch.len - FRAME_HEAD));
	put_le64(l->batch.data + 4, ++l->batch_number);
	write_all(l->peers[0].fd, l->batch.data, l->batch.len);
	write_all(l->peers[1].fd, l->batch.data, l->batch.len);
	append(&l->log, l->batch.data, l->batch.len);
	sync_log(&l->log);
	while (l->peers[0].acked < l->batch_number && l->peers[1].acked < l->batch_number) {
		struct pollfd p[2] = { { .fd = l->peers[0].fd, .events = POLLIN },
			               { .fd = l->peers[1].fd, .events = POLLIN } };

		if (poll(p, 2, 10000) <= 0)
			bare_die("no peer answers");
		for (size_t i = 0; i < 2; i++) {
			if (p[i].revents)
				take_acks(&l->peers[i]);
		}
	}
}

static void answer_all(struct leader *l)
{
	for (size_t i = 0; i < CONNS_MAX; i++) {
		struct conn *c = &l->conns[i];

		for (; c->owed > 0; c->owed--)
			write_all(c->fd, l->answer.data, l->answer.len);
	}
}

static void run_turn(struct leader *l, int listen_fd)
{
	nfds_t n = 0;

	l->polls[n++] = (struct pollfd){ .fd = listen_fd, .events = POLLIN };
	for (size_t i = 0; i < 2; i++)
		l->polls[n++] = (struct pollfd){ .fd = l->peers[i].fd, .events = POLLIN };
	for (size_t i = 0; i < CONNS_MAX; i++)
		l->polls[n++] = (struct pollfd){ .fd = l->conns[i].fd, .events = POLLIN };
	if (poll(l->polls, n, -1) < 0)
		bare_die("poll");

	buf_clear(&l->batch);
	(void)buf_reserve(&l->batch, FRAME_HEAD);
	buf_advance(&l->batch, FRAME_HEAD);
	for (size_t i = 0; i < CONNS_MAX; i++) {
		if (l->polls[i + 3].revents)
			take_requests(l, &l->conns[i]);
	}
	if (l->polls[0].revents)
		accept_conn(l, listen_fd);
	for (size_t i = 0; i < 2; i++) {
		if (l->polls[i + 1].revents)
			take_acks(&l->peers[i]);
	}
	if (l->batch.len > FRAME_HEAD) {
		make_durable(l);
		answer_all(l);
	}
}

static void run_leader(char **argv)
{
	struct leader *l = mem_zalloc(sizeof(*l));
	struct buf value = bare_read_file(argv[6]);
	int listen_fd;

	l->log = open_log(argv[3]);
	bare_answer(&l->answer, (struct str){ (const char *)value.data, value.len });
	buf_fini(&value);
	for (size_t i = 0; i < CONNS_MAX; i++)
		l->conns[i].fd = -1;
	connect_peer(&l->peers[0], argv[4]);
	connect_peer(&l->peers[1], argv[5]);
	listen_fd = bare_listen(argv[2]);
	for (;;)
		run_turn(l, listen_fd);
}

int main(int argc, char **argv)
{
	alarm(BARE_LIFETIME_S);
	if (argc == 4 && strcmp(argv[1], "peer") == 0) {
		run_peer(argv[2], argv[3]);
	} else if (argc == 7 && strcmp(argv[1], "leader") == 0) {
		run_leader(argv);
	} else {
		fprintf(stderr, "usage: bare_write peer PORT DIR\n"
		                "       bare_write leader PORT DIR PEER_PORT PEER_PORT VALUE_FILE\n");
		return 2;
	}
	return 0;
}
