/* fsm/idem.h - answers kept for requests that may come again, by actor and key.
 *
 * A row is written with the effects of its entry and counts for FSM_IDEM_KEPT_MS of the log's time: what is expired is
 * decided by the entries' times alone, so every node keeps and forgets the same.
 * Ownership: borrowed from the transaction.   Thread: any, each with its own transaction.
 */
#ifndef FSM_IDEM_H
#define FSM_IDEM_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "store/store.h"

#define FSM_IDEM_KEPT_MS 600000u
/* An entry with a key is proposed only where every server knows types up to this: older ones apply such entries, but
 * keep no row. */
#define FSM_IDEM_TYPE 77u

struct fsm_idem {
	uint64_t request_hash;
	int status;
	raft_index index; /* of the entry */
	struct str body;  /* as planned: see entry_put_body */
};
/* ERR_NOTFOUND: nothing is kept, or it is expired at `now_ms`. */
MUST_CHECK int fsm_get_idem(struct store_txn *txn, struct str actor, struct str key, uint64_t now_ms,
                            struct fsm_idem *out);

#endif /* FSM_IDEM_H */
