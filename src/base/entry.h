/* base/entry.h - what the log is made of, shared by raft/, wal/ and fsm/ so that none needs another.
 *
 * Source: Raft, figure 3.1.
 */
#ifndef BASE_ENTRY_H
#define BASE_ENTRY_H

#include <stdint.h>

#include "base/slab.h"

typedef uint64_t raft_index; /* 1 for the first entry; 0 = before it */
typedef uint64_t raft_term;  /* 0 = before the first election */
typedef uint64_t node_id;    /* incarnation of a data directory (random, never 0); 0 = nobody */

enum entry_kind {
	ENTRY_NOOP = 1,    /* a new leader's first entry; no payload */
	ENTRY_CONFIG = 2,  /* a Raft configuration, encoded by raft/conf.c */
	ENTRY_COMMAND = 3, /* an entry envelope, model/entry.h */
};

#define ENTRY_PAYLOAD_MAX (2u << 20) /* bytes; one entry, envelope included */

struct entry {
	raft_index index;
	raft_term term;
	uint8_t kind;        /* enum entry_kind */
	uint32_t len;        /* bytes of payload */
	const uint8_t *data; /* inside `slab`; NULL while len is 0 */
	struct slab *slab;   /* NULL while len is 0; the struct's owner holds one count */
};

static inline void entry_ref(const struct entry *e)
{
	slab_ref(e->slab);
}

static inline void entry_unref(struct entry *e)
{
	slab_unref(e->slab);
	e->slab = NULL;
	e->data = NULL;
	e->len = 0;
}

#endif /* BASE_ENTRY_H */
