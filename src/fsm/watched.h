/* fsm/watched.h - the state as watchers have it, key by key: what a watch begins with, in the words of its changes.
 *
 * Every key is found from the one before it, so a long list can be given in pieces, over many turns of one transaction
 * (see fsm_read_pause).
 * Ownership: nothing is kept.   Thread: any, each with its own transaction.
 */
#ifndef FSM_WATCHED_H
#define FSM_WATCHED_H

#include "base/arena.h"
#include "base/buf.h"
#include "fsm/changes.h"
#include "store/store.h"

struct fsm_watched_key {
	size_t len; /* 0: before the first */
	char text[FSM_CHANGE_KEY_MAX + 1];
};

/* The next key of `domain` that begins with `prefix`; of assignments, with `member` given, only those it holds or gets.
 * ERR_NOTFOUND: the end. */
MUST_CHECK int fsm_watched_next(struct store_txn *txn, enum fsm_domain domain, struct str prefix, struct str member,
                                struct fsm_watched_key *key);
/* The record under a key, as struct fsm_change has it; appended. ERR_NOTFOUND: nothing that a watcher is shown. */
MUST_CHECK int fsm_watched_record(struct store_txn *txn, struct arena *arena, enum fsm_domain domain, struct str key,
                                  struct buf *out);

#endif /* FSM_WATCHED_H */
