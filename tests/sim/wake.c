/* Linked instead of base/wake.c: the world looks at `asleep` itself, so no signal needs the kernel. */
#include "base/wake.h"

#include <stdlib.h>

void wake_init(struct wake *w)
{
	w->fd = -1;
	atomic_init(&w->asleep, 0);
}

void wake_fini(struct wake *w)
{
	(void)w;
}

void wake_signal(struct wake *w)
{
	if (w)
		atomic_store(&w->asleep, 0);
}

void wake_prepare(struct wake *w)
{
	atomic_store(&w->asleep, 1);
}

void wake_clear(struct wake *w)
{
	atomic_store(&w->asleep, 0);
}

void wake_wait(struct wake *w, int64_t timeout_ms)
{
	(void)w;
	(void)timeout_ms;
	abort(); /* nobody waits in a world of one thread */
}
