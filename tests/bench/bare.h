/* tests/bench/bare.h - what the two bare responders share: just enough HTTP to be asked by the load client.
 *
 * They are bounds, not servers: nothing is checked that costs time, every request is taken as well-formed.
 */
#ifndef TESTS_BENCH_BARE_H
#define TESTS_BENCH_BARE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"

/* Nobody has to remember to stop a bound: it ends by itself. */
#define BARE_LIFETIME_S 600

static inline _Noreturn void bare_die(const char *what)
{
	perror(what);
	exit(1);
}

static inline struct sockaddr_in bare_addr(const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static inline int bare_listen(const char *port)
{
	const struct sockaddr_in a = bare_addr(port);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 256) != 0)
		bare_die("listen");
	return fd;
}

static inline void bare_no_delay(int fd)
{
	const int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		bare_die("TCP_NODELAY");
}

/* The length of the request at the front of `bytes`, 0 while it is not complete; `target` borrows from it. */
static inline size_t bare_request(const uint8_t *bytes, size_t len, struct str *target)
{
	static const char length_name[] = "Content-Length: ";
	const char *text = (const char *)bytes;
	const char *end = memmem(text, len, "\r\n\r\n", 4);
	const char *blank, *second, *length;
	size_t total;

	if (!end)
		return 0;
	total = (size_t)(end - text) + 4;
	length = memmem(text, total, length_name, sizeof(length_name) - 1);
	if (length)
		total += strtoul(length + sizeof(length_name) - 1, NULL, 10);
	if (total > len)
		return 0;
	blank = memchr(text, ' ', len);
	second = blank ? memchr(blank + 1, ' ', len - (size_t)(blank + 1 - text)) : NULL;
	if (!second)
		return 0;
	*target = (struct str){ blank + 1, (size_t)(second - blank - 1) };
	return total;
}

/* Answers as veenad does, with as many headers. */
static inline void bare_answer(struct buf *out, struct str body)
{
	buf_puts(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Veena-Node: bare\r\n"
	              "X-Veena-Cluster: 0123456789abcdef\r\nX-Veena-Index: 12345\r\nX-Veena-Leader: bare\r\n"
	              "X-Veena-Contact-Ms: 0\r\nETag: \"0123456789abcdef-0123456789abcdef\"\r\nContent-Length: ");
	buf_put_u64(out, body.len);
	buf_puts(out, "\r\n\r\n");
	buf_put(out, body.p, body.len);
}

/* The whole file; exits when it cannot. Caller frees. */
static inline struct buf bare_read_file(const char *path)
{
	struct buf b = { 0 };
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		bare_die(path);
	do {
		n = fread(buf_reserve(&b, 4096), 1, 4096, f);
		buf_advance(&b, n);
	} while (n > 0);
	fclose(f);
	return b;
}

#endif /* TESTS_BENCH_BARE_H */
