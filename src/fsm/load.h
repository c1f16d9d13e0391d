/* fsm/load.h - the buckets of another state machine, record by record, into a new store.
 *
 * For what comes from Narad's file: every record is judged as apply would judge it, written in the form in which this
 * release writes it, by the put call that apply uses, and everything derived is made with it. Records come bucket by
 * bucket, in this order: topics, schemas, assignments, members, users, removed_members, remotes; within a bucket in the
 * order of their keys. All of them count as changed at one index.
 *
 * Members become brokers, and dead until they register: no node of the old cluster is a server of the new one.
 * Memory: a batch of a few thousand records; the store's pages are let go after each.   Thread: any, one at a time.
 */
#ifndef FSM_LOAD_H
#define FSM_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "model/field.h"
#include "store/store.h"

struct fsm_load;

struct fsm_load_options {
	const char *dir;        /* an empty directory, for fsm.mdb; NULL: records are only judged */
	raft_index index;       /* above 0 */
	raft_term term;         /* above 0 */
	struct str conf;        /* raft_conf_encode's bytes, in force at `index`; borrowed until the end */
	struct str_map renames; /* members: old id, new id; borrowed until the end */
	struct str_list drops;  /* members to leave out; borrowed until the end */
};

/* What became of a record. */
struct fsm_loaded {
	bool dropped;         /* a member of `drops` */
	bool rewritten;       /* not the bytes it came in, though they say the same */
	bool renamed;         /* names a member of `renames` */
	bool names_dropped;   /* an assignment that names a member of `drops`; it is kept */
	uint32_t entry_types; /* members: newest entry type they reported; 0 = none */
};

MUST_CHECK int fsm_load_begin(const struct fsm_load_options *o, struct fsm_load **out, struct err *e);
/* ERR_INVALID: this record is refused, and nothing of it was written; go on. Any other failure is the end of it. */
MUST_CHECK int fsm_load_put(struct fsm_load *l, enum store_db db, struct str key, struct str value,
                            struct fsm_loaded *out, struct err *e);
/* Writes what is left and where the store stands, closes it synced and marked clean. Takes `l`, whatever it answers. */
MUST_CHECK int fsm_load_finish(struct fsm_load *l, uint32_t max_entry_type, struct err *e);
void fsm_load_abort(struct fsm_load *l); /* accepts NULL */

#endif /* FSM_LOAD_H */
