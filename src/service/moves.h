/* service/moves.h - moves under way, as the list and the writes read and show them. Thread: the http thread's, but for
 * struct svc_progress, which all of them share. */
#ifndef SERVICE_MOVES_H
#define SERVICE_MOVES_H

#include "service/write.h"

#define SVC_MOVES_SHOWN 10000
#define SVC_MOVES_PER_ENTRY 1000 /* that one request aborts */
#define SVC_FORCE_AFTER_S 120    /* that a source must have been dead before a move is completed without it */

/* What a move's target says of itself. */
struct svc_progress_report {
	bool frozen; /* the source accepts no writes; else it is being copied */
	uint64_t copied_bytes, total_bytes;
	uint64_t at_ms; /* Unix, by this node's clock */
};
void svc_progress_note(struct svc_progress *p, const struct svc_move *m, const struct svc_progress_report *said);

/* At most `max` moves, by topic and partition, in the arena; `more`: there are others. ERR_* of the store. */
MUST_CHECK int svc_moves_read(struct store_txn *txn, struct arena *arena, size_t max, struct svc_move **out,
                              size_t *count, bool *more);
/* One of them as an element. `detail`: with the way out of what blocks it. */
void svc_put_move(struct json_writer *w, struct svc *s, const struct svc_move *m, const struct fsm_members *members,
                  bool detail);

#endif /* SERVICE_MOVES_H */
