/* fsm/users.h - users as readers want them: the stored record, which holds the password's hash.
 *
 * The topics that a user owns are found by fsm_next_of_user (fsm/topics.h).
 * Ownership: everything is borrowed from the transaction.   Thread: any, each with its own transaction.
 */
#ifndef FSM_USERS_H
#define FSM_USERS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/store.h"

/* ERR_NOTFOUND, ERR_IO. */
MUST_CHECK int fsm_get_user(struct store_txn *txn, struct str name, struct str *record);

/* In byte order of name. */
struct fsm_user_iter {
	struct store_cursor *cursor;
	bool started;
};
MUST_CHECK int fsm_user_iter_open(struct fsm_user_iter *it, struct store_txn *txn);
MUST_CHECK int fsm_user_iter_next(struct fsm_user_iter *it, struct str *name,
                                  struct str *record); /* ERR_NOTFOUND: end */
void fsm_user_iter_close(struct fsm_user_iter *it);    /* accepts a zeroed one; before the transaction ends */

#endif /* FSM_USERS_H */
