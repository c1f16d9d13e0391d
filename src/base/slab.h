/* base/slab.h - immutable, reference-counted byte blocks that cross threads.
 *
 * An append batch lives in one slab: the consensus thread, the log thread, apply and every socket that still sends
 * it hold a count each. Bytes are written by the maker before the slab is shared and never after (one exception,
 * named in model/entry.h: the leader's time, stamped before the entry is handed on). Freed slabs of usual sizes go
 * to a pool. Thread: any; counts are atomic.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct slab {
	_Atomic uint32_t refs; /* 1 at birth */
	uint32_t pool_class;   /* slab.c's own */
	size_t len;            /* bytes in use; set by the maker */
	size_t cap;            /* bytes available */
	uint8_t data[];
};

struct slab *slab_new(size_t cap);                     /* refs 1, len 0; never NULL */
struct slab *slab_try_new(size_t cap);                 /* NULL on exhaustion: for sizes that come from outside */
struct slab *slab_from(const void *bytes, size_t len); /* refs 1, a copy of the bytes */
struct slab *slab_ref(struct slab *s);                 /* one more holder; returns s; accepts NULL */
void slab_unref(struct slab *s);                       /* accepts NULL */
void slab_drain_pool(void);                            /* frees pooled blocks: for leak checks at exit */

#endif /* BASE_SLAB_H */
