/* service/remotes.h - what the reads and the writes of remotes share.   Thread: its http thread. */
#ifndef SERVICE_REMOTES_H
#define SERVICE_REMOTES_H

#include "fsm/remotes.h"
#include "model/remotes.h"
#include "service/keyring.h"
#include "service/service_internal.h"

/* Remotes hold passwords: with auth off they are not there. False: `a` is the 403. */
bool svc_remotes_allowed(const struct svc *s, struct svc_answer *a);
/* One remote as an answer shows it, without the brace that closes it: of the password, what tells nothing. */
void svc_put_remote_open(const struct remote *r, struct json_writer *w);
/* Those that use it, as "parent/child" in order: `,"links":[...]`. Non-zero: ERR_* of the store. */
MUST_CHECK int svc_put_remote_links(struct store_txn *txn, struct str remote, struct arena *arena,
                                    struct json_writer *w);

#endif /* SERVICE_REMOTES_H */
