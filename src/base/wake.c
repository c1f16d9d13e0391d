#include "base/wake.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

void wake_init(struct wake *w)
{
	w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->fd < 0) {
		perror("veena: eventfd");
		abort();
	}
	atomic_init(&w->asleep, 0);
}

void wake_fini(struct wake *w)
{
	if (w->fd > 0)
		close(w->fd);
	w->fd = -1;
}

void wake_signal(struct wake *w)
{
	if (!w)
		return;
	/* Pairs with the fence in wake_prepare: either we see the sleeper, or it sees what we published. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&w->asleep, memory_order_relaxed) == 0)
		return;
	if (atomic_exchange(&w->asleep, 0) == 0)
		return;
	const uint64_t one = 1;
	ssize_t n;
	do {
		n = write(w->fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so the sleeper wakes anyway. */
	assert(n == sizeof(one) || errno == EAGAIN);
}

void wake_prepare(struct wake *w)
{
	atomic_store(&w->asleep, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

void wake_clear(struct wake *w)
{
	/* Only a signal that found us asleep wrote the fd. */
	if (atomic_exchange(&w->asleep, 0) == 1)
		return;
	uint64_t count;
	ssize_t n;
	do {
		n = read(w->fd, &count, sizeof(count));
	} while (n < 0 && errno == EINTR);
}

void wake_wait(struct wake *w, int64_t timeout_ms)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	const int wait = timeout_ms < 0 ? -1 : timeout_ms > 60000 ? 60000 : (int)timeout_ms;
	(void)poll(&p, 1, wait); /* an early return only costs the caller one look at its queues */
}
