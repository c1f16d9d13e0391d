/* fsm/changes.h - what changed, in order: the one list that watch, caches and the control plane follow.
 *
 * Every put and delete notes (index, domain, key, op), and each note carries the record as watchers are shown it: of a
 * put as its entry left it, of a delete the last one. The notes of a batch are published after its commit and before
 * the applied index moves, so whoever sees an applied index finds its changes here. Of one entry a key has one note.
 * The newest 10,000 entries at least are kept, usually far more; older ones go, and whoever still wanted them is told.
 * Memory: 16 MiB, or what those entries need, but never more than FSM_CHANGES_BYTES_MAX. Refused entries, heartbeats
 * that change only their time, and counters leave no note.
 *
 * Thread: apply writes; any number of readers, each with its own struct fsm_change_pos. A lock is taken once per piece
 * of the list, not per change.
 */
#ifndef FSM_CHANGES_H
#define FSM_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "store/store.h"

struct fsm;

/* The words are watch's. `routing` has no notes: its version moves when a member is new, removed or changes address or
 * status - and with nothing else. New ones go at the end: last changed indexes are stored in this order. */
#define FSM_DOMAIN_MAP(X)                                                                                              \
	X(TOPICS, "topics")                                                                                            \
	X(SCHEMAS, "schemas")                                                                                          \
	X(ASSIGNMENTS, "assignments")                                                                                  \
	X(MEMBERS, "members")                                                                                          \
	X(USERS, "users")                                                                                              \
	X(REMOTES, "remotes")                                                                                          \
	X(SERVERS, "servers")                                                                                          \
	X(TOMBSTONES, "tombstones")                                                                                    \
	X(ROUTING, "routing")                                                                                          \
	X(SETTINGS, "settings")                                                                                        \
	X(POLICIES, "policies")                                                                                        \
	X(CONTROL, "control")

enum fsm_domain {
#define FSM_DOMAIN_ENUM(id, word) FSM_DOMAIN_##id,
	FSM_DOMAIN_MAP(FSM_DOMAIN_ENUM)
#undef FSM_DOMAIN_ENUM
	    FSM_DOMAIN_COUNT
};
const char *fsm_domain_word(enum fsm_domain d);

enum fsm_op { FSM_OP_PUT = 1, FSM_OP_DELETE = 2 };

#define FSM_CHANGE_KEY_MAX 320             /* bytes: topic name, slash, partition */
#define FSM_CHANGES_ENTRIES 10000u         /* kept at least, as indexes of the log */
#define FSM_CHANGES_BYTES_MAX (256u << 20) /* but not beyond this */

/* Borrowed until the reader's next call with the same place. */
struct fsm_change {
	raft_index index;
	enum fsm_domain domain;
	enum fsm_op op;
	bool more; /* the next change has the same index */
	/* `orders`, `orders/3` (partition or schema version), a member id, a user; a NUL behind it */
	struct str key;
	struct str record;  /* JSON; len 0: nothing that a watcher is shown, a row of no partition for example */
	struct str members; /* assignments: who held it before or holds it now, each with a NUL behind it */
};

struct change_chunk; /* a piece of the list */

/* A place in the list; the reader's own. Zeroed is none. It holds a count of the piece it is in. */
struct fsm_change_pos {
	struct change_chunk *chunk;
	uint32_t offset;
};
void fsm_changes_leave(struct fsm_change_pos *pos); /* accepts none; may run twice; before fsm_close */

/* Behind the newest change. */
void fsm_changes_end(const struct fsm *f, struct fsm_change_pos *pos);
/* Before the first change with an index above `since`. ERR_NOTFOUND: some of those are gone already (410 compacted),
 * and `pos` is where it was. */
MUST_CHECK int fsm_changes_seek(const struct fsm *f, raft_index since, struct fsm_change_pos *pos);
/* The change at `pos`, which moves behind it. 0; ERR_TIMEOUT: none yet; ERR_NOTFOUND: it was let go before it was read,
 * or another file was put in place - seek anew or list again. */
MUST_CHECK int fsm_changes_next(const struct fsm *f, struct fsm_change_pos *pos, struct fsm_change *out);
/* Another place at the same change. */
void fsm_changes_copy(const struct fsm_change_pos *from, struct fsm_change_pos *to);
/* Everything above this index is in the list; what is older has gone. */
raft_index fsm_changes_floor(const struct fsm *f);

/* Last index that changed the domain; never goes back. As published: with or just before the applied index. */
raft_index fsm_domain_version(const struct fsm *f, enum fsm_domain d);
/* The same, of the state that a transaction sees: ETag of a list. */
MUST_CHECK int fsm_get_domain_version(struct store_txn *txn, enum fsm_domain d, raft_index *out);

/* Hash of stored bytes: ETag of a record. The same on every node. */
uint64_t fsm_hash(struct str bytes);

#endif /* FSM_CHANGES_H */
