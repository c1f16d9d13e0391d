/* service/rights.h - what a user may do: the grants of its record, taken apart.
 *
 *   root, or a grant `admin`   everything
 *   owner of a topic           alters, deletes and links it
 *   create, produce, consume   on names that match a pattern; any of them lets read the topic
 *   observe                    reads all but users and the log
 *   member                     acts as the members whose ids match, and reads all but users
 * Ownership: a struct rights holds copies of everything.   Thread: its owner's.
 */
#ifndef SERVICE_RIGHTS_H
#define SERVICE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "model/records.h"

struct rights {
	struct str record;   /* the stored record they were taken from */
	struct user user;    /* name, hash and grants; points into `record` and `arena` */
	uint64_t credential; /* of the password's hash: see struct svc_principal */
	bool is_admin;       /* root too */
	bool reads_all;      /* but users, and the log: admin, observe, member */
	struct arena arena;
};

/* Those of everybody while auth is off. */
extern const struct rights rights_of_all;

/* From a stored record. ERR_CORRUPT: it does not decode. */
MUST_CHECK int rights_read(struct rights *r, struct str record, struct err *e);
void rights_fini(struct rights *r); /* accepts a zeroed one */

bool rights_may(const struct rights *r, const char *action, struct str name); /* that action, or admin */
bool rights_may_any(const struct rights *r, struct str topic); /* produce, consume or create, or reads_all */
/* The topic's owner, or admin. */
bool rights_may_manage(const struct rights *r, struct str owner);

bool grant_pattern_matches(struct str pattern, struct str name); /* `prefix*`, or the very name */

#endif /* SERVICE_RIGHTS_H */
