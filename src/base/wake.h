/* base/wake.h - an eventfd that ends a thread's sleep.
 *
 * wake_signal costs a system call only when the sleeper announced its sleep: the consumer calls wake_prepare, looks at
 * its queues once more, then waits on wake_fd (libev or poll); wake_clear after waking.
 * Thread: signal any; the rest the sleeper's.
 */
#ifndef BASE_WAKE_H
#define BASE_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wake {
	int fd;                  /* eventfd, non-blocking */
	_Atomic uint32_t asleep; /* 1 while the sleeper may be blocked */
};

void wake_init(struct wake *w);
void wake_fini(struct wake *w);
void wake_signal(struct wake *w);                   /* accepts NULL */
void wake_prepare(struct wake *w);                  /* from here on a signal writes the fd */
void wake_clear(struct wake *w);                    /* awake again; empties the fd */
void wake_wait(struct wake *w, int64_t timeout_ms); /* poll for threads without a loop; -1 = no limit */

#endif /* BASE_WAKE_H */
