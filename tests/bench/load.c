/* tests/bench/load.c - a load client: N keep-alive connections, one request in flight on each.
 *
 *   load PORT CONNECTIONS seconds S NAMES METHOD TARGET [BODY]
 *   load PORT CONNECTIONS count  N NAMES METHOD TARGET [BODY]
 *
 * In TARGET and BODY `%` becomes a name's number: a random one below NAMES for a run of so many seconds, 0, 1, 2...
 * for a run of so many requests; `#` becomes the number of the request, so that no two bodies are alike.
 * Prints "answers, seconds, answers per second, p50 and p99 in microseconds" as one line of numbers. Any answer but a
 * 2xx, and ten seconds without an answer, end it with status 1 and a sentence.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "tests/bench/bare.h"

#define CONNS_MAX 256
#define SILENCE_MS 10000

struct conn {
	int fd;
	uint64_t sent_ns;
	bool waits; /* for an answer */
	struct buf in, out;
};

struct load {
	const char *method, *target, *body;
	unsigned names;
	bool counts;      /* a run of `goal` requests; else until `end_ns` */
	uint64_t goal;    /* requests to send */
	uint64_t end_ns;  /* no request is begun after it */
	uint64_t started; /* requests begun */
	unsigned waiting; /* connections that wait for an answer */
	struct rand dice;
	uint32_t *micros; /* one for each answer */
	size_t answers, cap;
	struct conn conns[CONNS_MAX];
	unsigned conn_count;
	int epoll_fd;
};

static void put_expanded(struct buf *out, const char *text, uint64_t name, uint64_t number)
{
	for (; *text; text++) {
		if (*text == '%')
			buf_put_u64(out, name);
		else if (*text == '#')
			buf_put_u64(out, number);
		else
			buf_putc(out, *text);
	}
}

static void format_request(struct load *l, struct buf *out)
{
	const uint64_t number = l->started++;
	const uint64_t name = l->counts ? number : rand_below(&l->dice, l->names);
	struct buf body = { 0 };

	buf_clear(out);
	buf_puts(out, l->method);
	buf_putc(out, ' ');
	put_expanded(out, l->target, name, number);
	buf_puts(out, " HTTP/1.1\r\nHost: bench\r\n");
	if (l->body) {
		put_expanded(&body, l->body, name, number);
		buf_puts(out, "Content-Type: application/json\r\nContent-Length: ");
		buf_put_u64(out, body.len);
		buf_puts(out, "\r\n");
	}
	buf_puts(out, "\r\n");
	buf_put(out, body.data, body.len);
	buf_fini(&body);
}

/* Requests are small and one is in flight: they fit the socket's buffer. */
static void begin_request(struct load *l, struct conn *c)
{
	const bool more = l->counts ? l->started < l->goal : clock_mono_ns() < l->end_ns;

	c->waits = more;
	if (!more)
		return;
	format_request(l, &c->out);
	c->sent_ns = clock_mono_ns();
	l->waiting++;
	if (write(c->fd, c->out.data, c->out.len) != (ssize_t)c->out.len)
		bare_die("write");
}

/* The length of the answer at the front, 0 while it is not complete. */
static size_t answer_len(const struct buf *in)
{
	static const char name[] = "content-length:";
	const char *text = (const char *)in->data;
	const char *end = in->len > 0 ? memmem(text, in->len, "\r\n\r\n", 4) : NULL;
	size_t total;

	if (!end)
		return 0;
	total = (size_t)(end - text) + 4;
	for (const char *line = text; line < end; line++) {
		if (strncasecmp(line, name, sizeof(name) - 1) == 0) {
			total += strtoul(line + sizeof(name) - 1, NULL, 10);
			break;
		}
		line = memchr(line, '\n', (size_t)(end + 4 - line));
	}
	return total <= in->len ? total : 0;
}

static void note_answer(struct load *l, const struct conn *c)
{
	if (c->in.len < 12 || c->in.data[9] != '2') {
		fprintf(stderr, "not a 2xx: %.*s\n", (int)c->in.len, (const char *)c->in.data);
		exit(1);
	}
	if (l->answers == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 65536;
		l->micros = mem_realloc(l->micros, l->cap * sizeof(*l->micros));
	}
	l->micros[l->answers++] = (uint32_t)((clock_mono_ns() - c->sent_ns) / 1000);
}

static void on_readable(struct load *l, struct conn *c)
{
	const ssize_t n = read(c->fd, buf_reserve(&c->in, 65536), 65536);
	size_t len;

	if (n <= 0) {
		fprintf(stderr, "the server closed a connection\n");
		exit(1);
	}
	buf_advance(&c->in, (size_t)n);
	len = answer_len(&c->in);
	if (len == 0)
		return;
	note_answer(l, c);
	buf_consume(&c->in, len);
	l->waiting--;
	begin_request(l, c);
}

static void open_conns(struct load *l, const char *port)
{
	const struct sockaddr_in a = bare_addr(port);

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < l->conn_count; i++) {
		struct conn *c = &l->conns[i];
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

		c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&a, sizeof(a)) != 0)
			bare_die("connect");
		bare_no_delay(c->fd);
		if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) != 0)
			bare_die("epoll_ctl");
	}
}

static int compare_u32(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void run(struct load *l)
{
	struct epoll_event events[CONNS_MAX];

	for (unsigned i = 0; i < l->conn_count; i++)
		begin_request(l, &l->conns[i]);
	while (l->waiting > 0) {
		const int n = epoll_wait(l->epoll_fd, events, CONNS_MAX, SILENCE_MS);

		if (n <= 0) {
			fprintf(stderr, "no answer in %d ms\n", SILENCE_MS);
			exit(1);
		}
		for (int i = 0; i < n; i++)
			on_readable(l, events[i].data.ptr);
	}
}

static void report(struct load *l, double seconds)
{
	if (l->answers == 0) {
		fprintf(stderr, "no answers\n");
		exit(1);
	}
	qsort(l->micros, l->answers, sizeof(*l->micros), compare_u32);
	printf("%zu %.3f %.1f %u %u\n", l->answers, seconds, (double)l->answers / seconds, l->micros[l->answers / 2],
	       l->micros[l->answers - 1 - l->answers / 100]);
}

int main(int argc, char **argv)
{
	struct load *l = mem_zalloc(sizeof(*l));
	uint64_t begun_ns;

	if (argc < 8 || argc > 9) {
		fprintf(stderr, "usage: load PORT CONNECTIONS seconds|count N NAMES METHOD TARGET [BODY]\n");
		return 2;
	}
	alarm(BARE_LIFETIME_S);
	l->conn_count = (unsigned)strtoul(argv[2], NULL, 10);
	l->counts = strcmp(argv[3], "count") == 0;
	l->names = (unsigned)strtoul(argv[5], NULL, 10);
	l->method = argv[6];
	l->target = argv[7];
	l->body = argc > 8 ? argv[8] : NULL;
	if (l->conn_count < 1 || l->conn_count > CONNS_MAX || l->names < 1) {
		fprintf(stderr, "1 to %d connections, at least one name\n", CONNS_MAX);
		return 2;
	}
	rand_seed(&l->dice, clock_mono_ns());
	open_conns(l, argv[1]);

	begun_ns = clock_mono_ns();
	l->goal = strtoull(argv[4], NULL, 10);
	l->end_ns = begun_ns + (uint64_t)(strtod(argv[4], NULL) * 1e9);
	run(l);
	report(l, (double)(clock_mono_ns() - begun_ns) / 1e9);
	return 0;
}
