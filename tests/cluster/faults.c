/* tests/cluster/faults.c - preloaded into a veenad by the cluster tests: a network that is cut, a disk that hangs or
 * fails.
 *
 * What is wrong stands in the file that TEST_FAULTS names, mapped by the process and written by the test while it runs
 * (harness.lua, Node:faults):
 *
 *   byte 0   '-' or 0: the disk works   'h': no sync returns until it changes   'e': the next one of a segment of the
 *            log that is in use fails with EIO   'a': no write to fsm.mdb returns   'f': they fail with EIO
 *   byte 1   how many of the ports below count
 *   byte 2.. u16 little-endian each: nothing is sent to these ports of other processes, no connection to them is made
 *
 * A cut shows as an error of the network, not as silence: what was sent before it may have arrived.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 64

/* NULL: nothing is ever wrong. */
static volatile uint8_t *faults;

__attribute__((constructor)) static void map_faults(void)
{
	const char *path = getenv("TEST_FAULTS");
	const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		abort(); /* a test that would run without its faults proves nothing */
	faults = p;
}

static void *next(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		abort();
	return f;
}

/* ---- network ---- */

static bool is_cut(const struct sockaddr *addr)
{
	uint16_t port;

	if (!faults || faults[1] == 0)
		return false;
	if (addr->sa_family == AF_INET)
		port = ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
	else if (addr->sa_family == AF_INET6)
		port = ntohs(((const struct sockaddr_in6 *)(const void *)addr)->sin6_port);
	else
		return false;
	for (int i = 0; i < faults[1] && 2 + 2 * i + 1 < PAGE; i++) {
		if (port == (uint16_t)(faults[2 + 2 * i] | faults[3 + 2 * i] << 8))
			return true;
	}
	return false;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	static int (*real)(int, const struct sockaddr *, socklen_t);

	if (!real)
		*(void **)&real = next("connect");
	if (is_cut(addr)) {
		errno = EHOSTUNREACH;
		return -1;
	}
	return real(fd, addr, len);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (!real)
		*(void **)&real = next("sendmsg");
	if (faults && faults[1] > 0 && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
	    is_cut((struct sockaddr *)&peer)) {
		errno = EHOSTUNREACH;
		return -1;
	}
	return real(fd, m, flags);
}

/* ---- disk ---- */

static bool has_end(int fd, const char *end)
{
	char link[64], path[512];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	const ssize_t n = readlink(link, path, sizeof(path));
	const size_t len = strlen(end);

	return n > (ssize_t)len && memcmp(path + n - len, end, len) == 0;
}

/* By its name: a spare segment has another, and so has the database. */
static bool is_segment(int fd)
{
	return has_end(fd, ".seg");
}

/* What the apply thread writes. True: the write fails, with errno set. */
static bool strikes_state(int fd)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	if (!faults || (faults[0] != 'a' && faults[0] != 'f') || !has_end(fd, "/fsm.mdb"))
		return false;
	while (faults[0] == 'a')
		nanosleep(&pause, NULL);
	if (faults[0] != 'f')
		return false;
	errno = EIO;
	return true;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);

	if (!real)
		*(void **)&real = next("pwrite");
	return strikes_state(fd) ? -1 : real(fd, bytes, len, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	static ssize_t (*real)(int, const struct iovec *, int, off_t);

	if (!real)
		*(void **)&real = next("pwritev");
	return strikes_state(fd) ? -1 : real(fd, v, count, at);
}

int fdatasync(int fd)
{
	static int (*real)(int);
	const struct timespec pause = { .tv_nsec = 5000000 };

	if (!real)
		*(void **)&real = next("fdatasync");
	while (faults && faults[0] == 'h')
		nanosleep(&pause, NULL);
	if (faults && faults[0] == 'e' && is_segment(fd)) {
		faults[0] = '-';
		errno = EIO;
		return -1;
	}
	return real(fd);
}
