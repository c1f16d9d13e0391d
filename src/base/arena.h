/* base/arena.h - memory of one request or step, freed all at once.
 *
 * Zero-initialised is empty and valid. Blocks are kept over arena_reset, so a steady state allocates nothing.
 * Ownership: all that an arena gives is borrowed until arena_reset or arena_fini.  Thread: its owner's.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

struct arena_block;

struct arena {
	struct arena_block *first;   /* kept blocks, in use up to `current` */
	struct arena_block *current; /* where the next bytes come from; NULL before the first */
	size_t used;                 /* bytes handed out since the last reset */
};

void arena_fini(struct arena *a);
void arena_reset(struct arena *a);             /* keeps at most 64 KiB of blocks */
void *arena_alloc(struct arena *a, size_t n);  /* aligned to 16, uninitialised */
void *arena_zalloc(struct arena *a, size_t n); /* aligned to 16, zeroed */
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_strdup(struct arena *a, const char *s);
void *arena_dup(struct arena *a, const void *p, size_t len);
struct str arena_str(struct arena *a, struct str s); /* a copy, with a NUL behind it */
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif /* BASE_ARENA_H */
