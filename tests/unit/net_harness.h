/* tests/unit/net_harness.h - a loop that runs until something holds, and sockets to talk over. */
#ifndef TESTS_UNIT_NET_HARNESS_H
#define TESTS_UNIT_NET_HARNESS_H

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/addr.h"

/* Turns both loops (the second may be NULL) until `*done` reaches `want`; false after `limit_ms`. */
static inline bool run_until(struct ev_loop *a, struct ev_loop *b, const int *done, int want, uint64_t limit_ms)
{
	const uint64_t end = clock_mono_ms() + limit_ms;
	while (*done < want) {
		if (clock_mono_ms() > end)
			return false;
		ev_run(a, EVRUN_NOWAIT);
		if (b)
			ev_run(b, EVRUN_NOWAIT);
		if (*done < want)
			(void)poll(NULL, 0, 1);
	}
	return true;
}

/* Turns the loops for so long: to show that something does not happen. */
static inline void run_for(struct ev_loop *a, struct ev_loop *b, uint64_t ms)
{
	const int never = 0;
	(void)run_until(a, b, &never, 1, ms);
}

static inline void set_nonblocking(int fd)
{
	const int rc = fcntl(fd, F_SETFL, O_NONBLOCK);
	assert(rc == 0);
}

/* A connected pair; [0] is non-blocking. */
static inline void make_pair(int fds[2])
{
	const int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
	assert(rc == 0);
	set_nonblocking(fds[0]);
}

/* A listening socket on a port of the kernel's choice, and its address as text. */
static inline int listen_anywhere(char addr[NET_ADDR_MAX + 1])
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	const int one = 1;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert(rc == 0);
	rc = bind(fd, (struct sockaddr *)&in, sizeof(in));
	assert(rc == 0);
	rc = listen(fd, 64);
	assert(rc == 0);
	rc = getsockname(fd, (struct sockaddr *)&in, &len);
	assert(rc == 0);
	(void)snprintf(addr, NET_ADDR_MAX + 1, "127.0.0.1:%u", ntohs(in.sin_port));
	return fd;
}

/* A blocking connection to addr. */
static inline int connect_to(const char *addr)
{
	struct net_addr a;
	int rc = net_addr_parse(addr, &a, NULL);
	assert(rc == 0);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(a.port) };
	rc = inet_pton(AF_INET, a.host, &in.sin_addr);
	assert(rc == 1);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rc = connect(fd, (struct sockaddr *)&in, sizeof(in));
	assert(rc == 0);
	return fd;
}

static inline void write_bytes(int fd, const void *p, size_t n)
{
	const ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
	assert(sent == (ssize_t)n);
}

/* Has the other side closed? Waits for nothing. */
static inline bool is_closed(int fd)
{
	char c;
	const ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

#endif /* TESTS_UNIT_NET_HARNESS_H */
