/* fsm/reader.h - one thread's view of the state: a read transaction that follows the applied index.
 *
 * fsm_read at each use, fsm_read_end before the loop blocks. The transaction is renewed at a turn's first read and
 * whenever the published applied index has passed it, so a reader never sees less than was announced before it looked.
 * Between turns (after fsm_read_end) the apply thread may take the transaction away to put another file in place; the
 * next fsm_read then begins a new one. No lock is taken while nothing changed among the members.
 * Ownership: everything read is borrowed until the next fsm_read or fsm_read_end of the same reader.
 * Thread: one reader per reading thread; init and fini may run on any thread while nobody else uses it.
 */
#ifndef FSM_READER_H
#define FSM_READER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "fsm/members.h"
#include "store/store.h"

struct fsm;

struct fsm_reader {
	struct fsm *fsm;
	struct store_txn *txn;             /* NULL before the first read and after it was taken */
	_Atomic uint32_t state;            /* reader.c's own: idle, in use, taken */
	_Atomic uint64_t since_ms;         /* monotonic time of the last renewal; 0 while idle */
	raft_index index;                  /* of txn */
	const struct fsm_members *members; /* one count held; NULL = not yet asked for */
	raft_index members_index;          /* of the transaction that `members` was found right for */
	uint64_t generation;               /* of the file that txn belongs to */
	struct fsm_reader *next;           /* in fsm's list */
};

void fsm_reader_init(struct fsm_reader *r, struct fsm *f);
void fsm_reader_fini(struct fsm_reader *r); /* accepts a zeroed one; before fsm_close */

/* The transaction to read from now. ERR_BUSY: another file is being put in place, or no reader slot is left;
 * ERR_CLOSED: no file is open. The caller answers 503 not_ready. */
MUST_CHECK int fsm_read(struct fsm_reader *r, struct store_txn **txn, struct err *e);
void fsm_read_end(struct fsm_reader *r); /* may run twice */

/* Instead of fsm_read_end: the transaction stays as it is, for a list of one index that is given in pieces. It holds
 * back the store's pages meanwhile, so only for a bounded time. */
void fsm_read_pause(struct fsm_reader *r);
/* The same transaction again. ERR_BUSY: it was taken away, another file is in place. After fsm_read_pause. */
MUST_CHECK int fsm_read_resume(struct fsm_reader *r, struct store_txn **txn);

/* Applied index of the transaction fsm_read gave: X-Veena-Index. */
static inline raft_index fsm_reader_index(const struct fsm_reader *r)
{
	return r->index;
}

/* The members as the transaction sees them; made once per change of a member, shared by all readers. After fsm_read. */
MUST_CHECK int fsm_reader_members(struct fsm_reader *r, const struct fsm_members **out, struct err *e);

/* Moves whenever another file was put in place (a snapshot from the leader): what was kept from before is void. Any
 * thread. */
uint64_t fsm_generation(const struct fsm *f);

/* Age of the oldest read transaction in use, copies included; 0 = none. Above 50 ms apply should commit at most every
 * 5 ms, else the file grows manyfold. Any thread. */
uint64_t fsm_oldest_read_ms(struct fsm *f, uint64_t now_ms);

#endif /* FSM_READER_H */
