/* fsm/fsm.h - the state machine: committed entries in, the store's records out, the same bytes on every node.
 *
 * One LMDB write transaction per batch, one child transaction per entry: a refused entry leaves nothing but its index.
 * The applied index with its term, the Raft configuration, the store's transaction id and the newest entry type
 * consumed are written in the transaction that holds the effects; the in-memory copies move only after it committed,
 * the applied index last. Applying knows no clock, no chance, no floating point, no order of hashing: what varies
 * travels in the entry. Bytes that do not decode are refused the same way everywhere and consumed; a type this build
 * does not know stops the node before anything of that entry is applied.
 *
 * Thread: apply, unless a function says any. The spec module and tests use it from one thread of their own.
 */
#ifndef FSM_FSM_H
#define FSM_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "store/store.h"

/* Why an entry was refused. Each is one row of the facts' tables; the service maps it to a status, a code and a
 * sentence. Numbers travel in results only, never to disk or between releases; the word is for logs and tests. */
#define FSM_REFUSAL_MAP(X)                                                                                             \
	X(UNDECODABLE, 1, "undecodable") /* envelope or payload; consumed */                                           \
	X(UNSUPPORTED, 2, "unsupported") /* a known type that this release does not carry out */                       \
	X(INVALID, 3, "invalid")         /* a value the rules do not allow */                                          \
	X(TOPIC_NOT_FOUND, 10, "topic_not_found")                                                                      \
	X(TOPIC_EXISTS, 11, "topic_exists")                                                                            \
	X(TOPIC_TWIN, 12, "topic_twin")       /* differs only in case from hint.name */                                \
	X(TOPIC_CHANGED, 13, "topic_changed") /* another incarnation, or it would lose partitions */                   \
	X(PARENT_NOT_FOUND, 14, "parent_not_found")                                                                    \
	X(PARENT_CHANGED, 15, "parent_changed")                                                                        \
	X(CHILD_NOT_FOUND, 16, "child_not_found")                                                                      \
	X(CHILD_CHANGED, 17, "child_changed")                                                                          \
	X(NOT_LINKED, 18, "not_linked")                                                                                \
	X(ROLE_CONFLICT, 19, "role_conflict")                                                                          \
	X(ALREADY_ATTACHED, 20, "already_attached")                                                                    \
	X(CHILD_LIMIT, 21, "child_limit")                                                                              \
	X(DELAY_TOO_LONG, 22, "delay_too_long") /* hint.name = the child whose delay does not fit */                   \
	X(RETENTION_FLOOR, 23, "retention_floor")                                                                      \
	X(STUB_IMMUTABLE, 24, "stub_immutable")                                                                        \
	X(SCHEMA_MISMATCH, 25, "schema_mismatch")                                                                      \
	X(SCHEMA_MANAGED, 26, "schema_managed")                                                                        \
	X(SCHEMA_EXISTS, 27, "schema_exists") /* version at or below the latest */                                     \
	X(SCHEMA_GAP, 28, "schema_gap")       /* version above latest + 1 */                                           \
	X(SCHEMA_FULL, 29, "schema_full")     /* versions or bytes at their limit */                                   \
	X(ASSIGNMENT_NOT_FOUND, 40, "assignment_not_found")                                                            \
	X(PARTITION_RANGE, 41, "partition_range")                                                                      \
	X(PARTITION_ASSIGNED, 42, "partition_assigned") /* benign: somebody was quicker */                             \
	X(ASSIGNMENT_LIVE, 43, "assignment_live")       /* benign: not an orphan */                                    \
	X(MOVE_CHANGED, 44, "move_changed")             /* owner or target is not the expected one */                  \
	X(STALE_EPOCH, 45, "stale_epoch")               /* another leader epoch than the expected one */               \
	X(REPLICATED, 46, "replicated")                 /* of a partition with copies, which this cannot handle */     \
	X(NOT_REPLICATED, 47, "not_replicated")         /* of a partition with one owner */                            \
	X(NOT_IN_SYNC, 48, "not_in_sync")               /* no replica, or not one that has everything acknowledged */  \
	X(LAST_IN_SYNC, 49, "last_in_sync")             /* the leader, or the last copy in sync: it stays */           \
	X(MOVE_IN_FLIGHT, 83, "move_in_flight")         /* the partition is on its way to another */                   \
	X(ALREADY_OWNER, 84, "already_owner")           /* the target has it */                                        \
	X(NO_MOVE, 85, "no_move")                       /* it is not moving */                                         \
	X(MOVE_LIMIT, 86, "move_limit")                 /* as many moves as may be are under way */                    \
	X(NOT_DRAINING, 87, "not_draining")             /* it was taken back into service */                           \
	X(MEMBER_HOLDS, 88, "member_holds")             /* partitions name it */                                       \
	X(TARGET_NOT_ALIVE, 80, "target_not_alive")                                                                    \
	X(TARGET_DRAINING, 81, "target_draining")                                                                      \
	X(TARGET_NOT_PLACEABLE, 82, "target_not_placeable")                                                            \
	X(MEMBER_NOT_FOUND, 50, "member_not_found")                                                                    \
	X(MEMBER_REMOVED, 51, "member_removed")   /* a tombstone stands for this id */                                 \
	X(HEARTBEAT_NEWER, 52, "heartbeat_newer") /* benign: it was heard meanwhile */                                 \
	X(MEMBER_IS_SERVER, 53, "member_is_server")                                                                    \
	X(MEMBER_ALIVE, 54, "member_alive")         /* only a dead one can be given up */                              \
	X(STORE_CHANGED, 55, "store_changed")       /* another disk, while partitions name the member */               \
	X(SESSION_REPLACED, 56, "session_replaced") /* not the member's newest registration */                         \
	X(USER_NOT_FOUND, 60, "user_not_found")                                                                        \
	X(USER_EXISTS, 61, "user_exists")                                                                              \
	X(ROOT_PROTECTED, 62, "root_protected")                                                                        \
	X(REMOTE_NOT_FOUND, 70, "remote_not_found")                                                                    \
	X(REMOTE_EXISTS, 71, "remote_exists")                                                                          \
	X(REMOTE_LIMIT, 72, "remote_limit")                                                                            \
	X(REMOTE_SALT_RACE, 73, "remote_salt_race")                                                                    \
	X(REMOTE_KEY_EXHAUSTED, 74, "remote_key_exhausted") /* as many seals under one key as there may be */          \
	X(REMOTE_CHANGED, 75, "remote_changed")             /* hint.name = the revision it is at */                    \
	X(REMOTE_IN_USE, 76, "remote_in_use")               /* hint.name = the first child that goes there */          \
	X(REMOTE_GONE, 77, "remote_gone")                   /* an attach names a remote that is not there */           \
	X(REMOTE_CHILD_STALE, 78, "remote_child_stale")     /* attached anew since */                                  \
	X(REMOTE_CHILD_LIMIT, 79, "remote_child_limit")                                                                \
	X(REMOTE_TARGET_LINKED, 89, "remote_target_linked") /* hint.name = the child that goes there */                \
	X(IDEMPOTENT, 90, "idempotent")                     /* an answer is kept under the entry's key: give that one */

enum fsm_refusal {
	FSM_OK = 0,
#define FSM_REFUSAL_ENUM(id, number, word) FSM_##id = (number),
	FSM_REFUSAL_MAP(FSM_REFUSAL_ENUM)
#undef FSM_REFUSAL_ENUM
};
const char *fsm_refusal_word(int refusal); /* "" for 0, "?" for an unknown number. Any thread */

/* Who a refusal is about, when the entry itself does not say. */
struct fsm_hint {
	char name[256]; /* NUL-terminated; "" = nothing to say */
};

/* What came of one entry. */
struct fsm_result {
	int refusal;      /* 0 or enum fsm_refusal */
	uint32_t command; /* which command of the entry was refused; 0-based */
};

struct fsm;

struct fsm_options {
	struct store_options store;
	uint32_t max_entry_type; /* behave as a release that knows types up to this; 0 = all that this build knows */
	size_t changes_bytes;    /* memory for the list of changes; 0 = 16 MiB; see fsm/changes.h */
	raft_index start_index;  /* scratch stores that hold nothing: everything up to here counts as applied */
};

/* Newest entry type this build can apply. Any thread. */
uint32_t fsm_max_known_type(void);

/* Opens the store and reads where it stands. ERR_CORRUPT: untrusted by its mark, or written by something that does not
 * keep the applied index; the caller decides what becomes of the file (store_set_aside). ERR_VERSION: it holds the
 * effects of a newer entry type; not a byte was changed, and the message names both. Else as store_open. */
MUST_CHECK int fsm_open(const struct fsm_options *o, struct fsm **out, struct err *e);
/* No reader may be left. `clean`: see store_close. Accepts NULL. */
int fsm_close(struct fsm *f, bool clean, struct err *e);

struct store *fsm_store(struct fsm *f); /* for copies, syncs and space; any thread */

/* ---- applying ---- */

#define FSM_BATCH_ENTRIES_MAX 512
#define FSM_BATCH_BYTES_MAX (2u << 20)

/* Applies entries in order, in as many transactions as the batch limits ask for; results[i] belongs to entries[i]. An
 * entry at or below the applied index is passed over (result 0). On a failure everything before the failing batch is
 * applied, published and stays so (see fsm_applied_index); the rest is untouched and may be given again:
 *   ERR_VERSION  an unknown type, or a newer envelope: entries before it are applied; the message names index and type
 *   ERR_IO, ERR_FULL  the store could not begin, write or commit; the caller retries, then stops
 *   ERR_CORRUPT  a gap before entries[0], or records in the store that do not decode
 *   ERR_CLOSED   no file is open (a failed fsm_replace)
 * Entries are borrowed for the call. */
MUST_CHECK int fsm_apply(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results,
                         struct err *e);

/* One atomic load; it moves after everything it covers is visible. Any thread. */
raft_index fsm_applied_index(const struct fsm *f);
raft_term fsm_applied_term(const struct fsm *f); /* of that entry or a later one; any thread */

/* Would this command be refused, in the state `txn` sees? The very function that applies it, stopped before its first
 * write. `command` is the struct that model/commands.h names for `type`; `time_ms` what the entry would carry; memory
 * comes from `a`. Answers 0, an enum fsm_refusal (with `hint`, which may be NULL), or ERR_*. Any thread. */
MUST_CHECK int fsm_judge(struct store_txn *txn, unsigned type, const void *command, uint64_t time_ms, struct arena *a,
                         struct fsm_hint *hint, struct err *e);

/* ---- what a transaction's state stands at; any thread ---- */

struct fsm_applied {
	raft_index index;        /* 0 = nothing was applied yet */
	raft_term term;          /* of the entry at index */
	uint32_t max_entry_type; /* newest type consumed, refused ones too; 0 = none */
	uint64_t txn_id;         /* store transaction that wrote this */
	raft_index conf_index;   /* of `conf`; 0 = none was applied */
	struct str conf;         /* raft_conf_encode's bytes; borrowed until the transaction ends */
};
MUST_CHECK int fsm_get_applied(struct store_txn *txn, struct fsm_applied *out);
MUST_CHECK int fsm_get_index(struct store_txn *txn, raft_index *out); /* its index alone, in one look-up */

/* Does any data bucket hold a record? (With the applied index: "holds anything" of the boot decision.) */
MUST_CHECK int fsm_holds_data(struct store_txn *txn, bool *out);

/* Digest per database: sum mod 2^64 of XXH3-64 over length-prefixed key and value, kept up with every write. fsm_meta
 * leaves out txid; x_meta has none. Equal index, equal digests - on every node. */
struct fsm_digest {
	raft_index index;
	uint64_t total; /* over all of db[] */
	uint64_t db[STORE_DB_COUNT];
};
MUST_CHECK int fsm_get_digest(struct store_txn *txn, struct fsm_digest *out);   /* constant time */
MUST_CHECK int fsm_count_digest(struct store_txn *txn, struct fsm_digest *out); /* reads everything: scrub and tests */

/* Does a database still hold what its digest says? Reads all of it, with memory for one record. ERR_CORRUPT names the
 * database; those without a kept digest (fsm_meta, x_meta) are always right. */
MUST_CHECK int fsm_scrub(struct store_txn *txn, enum store_db db, struct err *e);
MUST_CHECK int fsm_scrub_image(const char *path, struct err *e); /* every database of a finished image */

/* Walks the whole state and compares what is derived with what it derives from: packed owners, indexes, counts,
 * digests. ERR_CORRUPT names the first difference. Slow: tests, the simulator, a scrub. */
MUST_CHECK int fsm_check(struct store_txn *txn, struct err *e);

/* ---- images ---- */

/* What an image file (a snapshot, fsm.restore) holds, read back from it and from nothing else. ERR_CORRUPT: not a whole
 * image of a state machine; ERR_VERSION: newer entry types than `max_entry_type` (0 = this build's). */
#define FSM_CONF_MAX 8192 /* bytes of an encoded configuration; the longest one needs about 5,400 */
struct fsm_image {
	raft_index index;
	raft_term term;
	uint32_t max_entry_type;
	raft_index conf_index;
	size_t conf_len;
	uint8_t conf[FSM_CONF_MAX]; /* raft_conf_encode's bytes; conf_len 0 = none */
	uint64_t digest;            /* total */
};
MUST_CHECK int fsm_read_image(const char *path, uint32_t max_entry_type, struct fsm_image *out, struct err *e);
/* The same of a state machine's own file, which may hold nothing yet (index 0); `holds`: any record. Changes nothing,
 * the lock file neither; only while nobody has it open, and only of a file that is trusted. ERR_CORRUPT, ERR_VERSION.
 */
MUST_CHECK int fsm_look(const char *path, uint32_t max_entry_type, struct fsm_image *out, bool *holds, struct err *e);

/* Gives the state a configuration that no entry brought: the first one of a state that was brought from elsewhere, in
 * force at its applied index. ERR_IO, ERR_FULL. */
MUST_CHECK int fsm_set_conf(struct fsm *f, const void *bytes, size_t len, struct err *e);

/* Puts the synced and checked image at `path` (in the store's directory) in the store's place, once every reader is
 * between two turns: takes their transactions from them itself, so that nobody need be woken; meanwhile fsm_read
 * answers ERR_BUSY. The list of changes starts anew behind the image's index. ERR_BUSY: a reader did not end its turn
 * within 2 s; nothing was changed. On any other failure the old file is open again, or none (ERR_CLOSED from then on).
 */
MUST_CHECK int fsm_replace(struct fsm *f, const char *path, struct err *e);

/* After a failed commit that left the store broken (store_is_broken): opens the same file anew in the same way, and
 * goes on from what it holds. Does nothing to a store that is not broken. Any failure may be tried again. */
MUST_CHECK int fsm_mend(struct fsm *f, struct err *e);

#endif /* FSM_FSM_H */
