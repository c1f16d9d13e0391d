/* fsm/remotes.h - remotes as readers want them: the stored record, which holds the sealed credential.
 *
 * Ownership: everything is borrowed from the transaction, or in the caller's arena.   Thread: any, each with its own
 * transaction.
 */
#ifndef FSM_REMOTES_H
#define FSM_REMOTES_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "model/records.h"
#include "store/store.h"

/* ERR_NOTFOUND (of the reserved key too), ERR_IO. */
MUST_CHECK int fsm_get_remote(struct store_txn *txn, struct str name, struct str *record);
/* The salt and what is counted of each key; nothing while there is no row. ERR_CORRUPT, ERR_IO. */
MUST_CHECK int fsm_get_remote_keys(struct store_txn *txn, struct arena *arena, struct remote_keys *out);

/* In byte order of name, without the reserved key. */
struct fsm_remote_iter {
	struct store_cursor *cursor;
	bool started;
};
MUST_CHECK int fsm_remote_iter_open(struct fsm_remote_iter *it, struct store_txn *txn);
MUST_CHECK int fsm_remote_iter_next(struct fsm_remote_iter *it, struct str *name,
                                    struct str *record); /* ERR_NOTFOUND: end */
void fsm_remote_iter_close(struct fsm_remote_iter *it);  /* accepts a zeroed one; before the transaction ends */

/* Children that go to a remote, in byte order of their name, behind `after`. ERR_NOTFOUND: the end. */
MUST_CHECK int fsm_next_of_remote(struct store_txn *txn, struct str remote, struct str after, struct str *child,
                                  struct str *remote_topic);
/* The first child that goes to that topic of that remote. ERR_NOTFOUND: none. */
MUST_CHECK int fsm_find_linked(struct store_txn *txn, struct str remote, struct str remote_topic, struct str *child);

#endif /* FSM_REMOTES_H */
