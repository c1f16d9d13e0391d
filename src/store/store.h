/* store/store.h - the state machine's file: an LMDB environment of named databases, and nothing above bytes.
 *
 * One file, <data>/fsm.mdb, with its lock file fsm.mdb-lock beside it. One writer (the apply thread), many readers.
 * With `sync_commits` off a commit is not synced: the synced log alone carries durability and fsm.mark (store/mark.h)
 * says whether the file may be believed after a start. The map is never grown and never written through.
 *
 * How it fails: every call that can fail answers 0 or ERR_*; the sentence of a failed call on a transaction is kept in
 * that transaction (store_txn_error). ERR_NOTFOUND is an answer, not a failure. A write transaction in which a call
 * failed is only good for store_abort. ERR_FULL: the map or the disk has no room. After a failed commit or sync of the
 * file itself the environment may refuse everything (ERR_IO) until it is opened anew.
 * Ownership: values are borrowed from the map until the transaction is ended, reset, renewed, or (write) written again.
 * Thread: each function says; a transaction and its cursors belong to one thread at a time.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* One list: enum, and the name in the file. The first eight are Narad's buckets, keys and values as Narad keeps them;
 * the x_ ones are veena's own, their layouts are drawn in fsm/README.md. New ones go at the end: digests are stored in
 * this order. */
#define STORE_DB_MAP(X)                                                                                                \
	X(TOPICS, "topics")                                                                                            \
	X(SCHEMAS, "schemas")                                                                                          \
	X(ASSIGNMENTS, "assignments")                                                                                  \
	X(MEMBERS, "members")                                                                                          \
	X(USERS, "users")                                                                                              \
	X(REMOVED_MEMBERS, "removed_members")                                                                          \
	X(REMOTES, "remotes")                                                                                          \
	X(FSM_META, "fsm_meta")                                                                                        \
	X(X_META, "x_meta")                                                                                            \
	X(X_TOPIC, "x_topic")                                                                                          \
	X(X_FOLD, "x_fold")                                                                                            \
	X(X_BY_MEMBER, "x_by_member")                                                                                  \
	X(X_BY_USER, "x_by_user")                                                                                      \
	X(X_MEMBER, "x_member")                                                                                        \
	X(X_MOVE, "x_move")                                                                                            \
	X(X_UNPLACED, "x_unplaced")                                                                                    \
	X(X_ORPHAN, "x_orphan")                                                                                        \
	X(X_LABELS, "x_labels")                                                                                        \
	X(X_REPLICAS, "x_replicas")                                                                                    \
	X(X_SETTINGS, "x_settings")                                                                                    \
	X(X_IDEM, "x_idem")                                                                                            \
	X(X_IDEM_AT, "x_idem_at")                                                                                      \
	X(X_BY_REMOTE, "x_by_remote")                                                                                  \
	X(X_LEADERLESS, "x_leaderless")

enum store_db {
#define STORE_DB_ENUM(id, name) STORE_##id,
	STORE_DB_MAP(STORE_DB_ENUM)
#undef STORE_DB_ENUM
	    STORE_DB_COUNT
};
#define STORE_NARAD_DB_COUNT 8

#define STORE_KEY_MAX 511 /* bytes; LMDB's own limit. Keys are never empty. */

const char *store_db_name(enum store_db db);

struct store;
struct store_txn;
struct store_cursor;

struct store_options {
	const char *dir;      /* data directory; borrowed for the call */
	uint64_t map_bytes;   /* address space to reserve; 0 = 1 TiB. Halved until it opens */
	bool sync_commits;    /* --sync fsm: every commit is synced too */
	uint64_t limit_bytes; /* logical limit on pages in use; 0 = what the map allows less the reserve */
	/* Not NULL: a throw-away file at this path instead, made or (an image) taken over, and unlinked once it is
	 * open; no mark, no syncs. For specs, tools and tests; `dir` is ignored. */
	const char *scratch;
};

/* Opens for reading and writing. Judges trust first (store/mark.h): an untrusted file is not opened, ERR_CORRUPT. An
 * absent or empty file becomes a new one. A trusted file is not changed by opening it, only by the first commit.
 * ERR_IO, ERR_FULL, ERR_SYSTEM (no address space), ERR_VERSION (another LMDB format). */
MUST_CHECK int store_open(const struct store_options *o, struct store **out, struct err *e);

/* Opens a finished image (a snapshot, fsm.restore) read-only without lock file; nobody may be writing to it. Its length
 * is checked against its meta pages before it is mapped. ERR_CORRUPT: not an image, or cut short. */
MUST_CHECK int store_open_image(const char *path, struct store **out, struct err *e);

/* Ends it. `clean`: sync, then mark the file clean with its transaction id; a failure leaves the file unmarked, which
 * only costs a rebuild, and is returned. All transactions have ended. Accepts NULL. */
int store_close(struct store *s, bool clean, struct err *e);

/* Apply thread, every transaction ended: waits for a running sync or copy, closes the file, puts the synced image at
 * `path` (same directory) in its place, syncs the directory, opens it. Crash-safe at every step: before the rename the
 * old file stands unmarked or marked as before, after it the new one is marked clean. On failure `s` holds an open file
 * again (ERR_*: the old one) or none at all (then every call answers ERR_CLOSED). */
MUST_CHECK int store_replace(struct store *s, const char *path, struct err *e);

/* A commit that failed at its last page leaves LMDB refusing everything, reads too, until the file is opened anew. */
bool store_is_broken(const struct store *s); /* any thread */
/* Apply thread, every transaction ended: closes the same file and opens it again. The newest commit that is whole
 * counts, which may be the one that failed. On failure none is open (ERR_CLOSED from then on). */
MUST_CHECK int store_reopen(struct store *s, struct err *e);

bool store_is_open(const struct store *s); /* false after a store_replace that ended without a file */

/* ---- transactions ---- */

/* Databases that a newer release added are missing in an older file: they read as empty until the first write
 * transaction of whoever opened it has made them (before other threads use the store). */
bool store_is_complete(const struct store *s);
MUST_CHECK int store_create_missing(struct store_txn *t); /* there for good once `t` is committed */

/* Any thread. A reader slot is held until store_abort, also while reset. ERR_BUSY: no reader slot is left. */
MUST_CHECK int store_begin_read(struct store *s, struct store_txn **out, struct err *e);
void store_reset_read(struct store_txn *t);                          /* lets old pages go; the slot stays */
MUST_CHECK int store_renew_read(struct store_txn *t, struct err *e); /* after a reset: the newest commit */

/* Apply thread. The first one of a run writes and syncs the dirty mark before it answers. */
MUST_CHECK int store_begin_write(struct store *s, struct store_txn **out, struct err *e);
/* Nested work inside a write transaction: until it ends, every call on `t` acts in the child. One level. */
MUST_CHECK int store_begin_child(struct store_txn *t);
MUST_CHECK int store_commit_child(struct store_txn *t);
void store_abort_child(struct store_txn *t);

MUST_CHECK int store_commit(struct store_txn *t, struct err *e); /* takes t, whatever it answers; write transactions */
void store_abort(struct store_txn *t);                           /* takes t; read and write; accepts NULL */

/* Of the snapshot a read transaction sees; of a write transaction: the id its commit will have. */
uint64_t store_txn_id(const struct store_txn *t);
bool store_txn_writes(const struct store_txn *t);
/* Why the last call on `t` that answered neither 0 nor ERR_NOTFOUND did so. Borrowed until `t` ends. */
const struct err *store_txn_error(const struct store_txn *t);

/* ---- records. A key that is empty or longer than STORE_KEY_MAX is in no database. ---- */

MUST_CHECK int store_get(struct store_txn *t, enum store_db db, struct str key, struct str *value);
MUST_CHECK int store_put(struct store_txn *t, enum store_db db, struct str key, struct str value);
MUST_CHECK int store_del(struct store_txn *t, enum store_db db, struct str key);      /* ERR_NOTFOUND */
MUST_CHECK int store_count(struct store_txn *t, enum store_db db, uint64_t *records); /* constant time */

/* Cursors move in byte order. `key` and `value` may be NULL. After a write to their database they must seek anew. */
MUST_CHECK int store_cursor_open(struct store_txn *t, enum store_db db, struct store_cursor **out);
void store_cursor_close(struct store_cursor *c); /* before its transaction (or child) ends; accepts NULL */
MUST_CHECK int store_cursor_seek(struct store_cursor *c, struct str from, struct str *key,
                                 struct str *value); /* >= from */
MUST_CHECK int store_cursor_next(struct store_cursor *c, struct str *key, struct str *value);

/* ---- the file ---- */

/* Makes every commit so far durable. An error is final: the mark is removed, so that no later start believes the file,
 * and every later write transaction answers ERR_IO. Work pool, every second; waits while the apply thread replaces. */
MUST_CHECK int store_sync(struct store *s, struct err *e);

/* The file is known to be damaged: the mark is removed, and every later write transaction answers ERR_IO. Any thread
 * but those inside a transaction; an error means that the mark may still stand. */
int store_distrust(struct store *s, struct err *e);

/* Writes a consistent image of the newest commit, whole and plain, at the descriptor's position; not synced. The image
 * carries the transaction id. One read transaction lasts as long as the copy, and store_replace waits for it. Work
 * pool. */
MUST_CHECK int store_copy(struct store *s, int fd, struct err *e);

/* Room, as of the last commit. What the leader looks at before it proposes: a request that only deletes passes while
 * used < limit + reserve, any other while used < limit. Any thread. */
struct store_space {
	uint64_t used_bytes;    /* pages that hold something */
	uint64_t limit_bytes;   /* of used_bytes, for what adds */
	uint64_t reserve_bytes; /* above the limit, for what deletes, and for copies that a transaction makes */
	uint64_t file_bytes;    /* length the newest commit needs; pages above used_bytes are free to be used again */
};
void store_get_space(const struct store *s, struct store_space *out);

/* Lets go of the map's pages in this process; they come back from the file when they are next touched. For walks over a
 * whole file, which else would count all of it as this process's memory. Any thread. */
void store_drop_pages(struct store *s);

/* When the running copy began (monotonic ms); 0 = none. Any thread. */
uint64_t store_copy_since_ms(const struct store *s);

#endif /* STORE_STORE_H */
