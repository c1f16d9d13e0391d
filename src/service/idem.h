/* service/idem.h - requests with an Idempotency-Key: the first answer is given again.
 *
 * What is under way under a key is known to the leader alone, over all its http threads; what has been answered is in
 * the log. Between the two nothing gets through: the state machine refuses a second entry under a key.
 * Thread: any http thread.
 */
#ifndef SERVICE_IDEM_H
#define SERVICE_IDEM_H

#include "service/write.h"

struct svc_idem;

struct svc_idem *svc_idem_new(void);
void svc_idem_free(struct svc_idem *m); /* accepts NULL */

/* False: the first request under this key is still running, `a` says so. */
bool svc_idem_enter(struct svc_task *t, struct svc_answer *a);
void svc_idem_leave(struct svc_task *t); /* if it entered */
/* FAILED: `a` is the answer, an earlier one or that the key was another request's. */
enum svc_verdict svc_idem_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc);
/* What the entry is to carry. Its body is in the task's arena. */
void svc_idem_plan(struct svc_task *t, struct entry_header *h);

#endif /* SERVICE_IDEM_H */
