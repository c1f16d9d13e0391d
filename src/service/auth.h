/* service/auth.h - who asks: Basic credentials, and the rights behind them.
 *
 *   header -> known to this thread? -> verified by another? -> throttled? -> bcrypt on the work pool -> known
 *
 * A verified password is remembered as an HMAC, under a key of this process, of the password and of the hash it was
 * verified against: a changed hash needs no clearing, since nothing remembered fits it any more. Rights are taken from
 * the stored record and looked at again when the version of the users has moved, so a change counts with the next
 * request on every node that has applied it.
 *
 * Thread: a struct auth_known is its http thread's. A struct auth is shared; its lock is held for a look-up, by
 * requests that their thread does not know yet and by the pool.
 */
#ifndef SERVICE_AUTH_H
#define SERVICE_AUTH_H

#include <stdatomic.h>

#include "service/bcrypt.h"
#include "service/rights.h"
#include "service/service_internal.h"

#define AUTH_MAC_SIZE 32
#define AUTH_KNOWN_SETS 256 /* of four: users that one thread knows */
#define AUTH_VERIFIED_SETS 1024
#define AUTH_WAYS 4

struct auth;

struct auth *auth_new(struct bcrypt_queue *bcrypt);
void auth_free(struct auth *au); /* the pool's threads have ended; accepts NULL */

struct auth_counts {
	_Atomic uint64_t failed, throttled;
};
struct auth_counts *auth_counts(struct auth *au);

/* One user as a thread knows it. */
struct auth_user {
	char name[SVC_USER_MAX + 1];
	struct rights rights;
	raft_index version; /* of the users, at which `rights` was right */
	uint8_t mac[AUTH_MAC_SIZE];
	bool has_mac;
	uint64_t used; /* the one used longest ago gives way */
};

struct auth_known;

struct auth_known *auth_known_new(struct auth *au);
void auth_known_free(struct auth_known *k); /* accepts NULL */

/* The rights of a user as of `txn` or later. ERR_NOTFOUND: there is no such user. Borrowed until the next call. */
MUST_CHECK int auth_get_user(struct svc *s, struct store_txn *txn, struct str name, struct auth_user **out);
/* Those of a principal. ERR_NOTFOUND: it is unknown here, or its credential is no more what was verified. */
MUST_CHECK int auth_rights_of(struct svc *s, struct store_txn *txn, const struct svc_principal *p,
                              const struct rights **out);

/* May the request run? What needs more than the grant of its route is asked where the record is at hand. 0, or ERR_*;
 * *may false: `a` says why not. */
MUST_CHECK int auth_check(struct svc *s, struct store_txn *txn, const struct svc_request *rq, const struct rights **out,
                          bool *may, struct svc_answer *a);

#endif /* SERVICE_AUTH_H */
