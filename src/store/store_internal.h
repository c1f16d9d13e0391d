/* store/store_internal.h - what the files of store/ share. LMDB's names end here. */
#ifndef STORE_STORE_INTERNAL_H
#define STORE_STORE_INTERNAL_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/mark.h"
#include "store/store.h"

#define STORE_MAXDBS 64
#define STORE_MAXREADERS 254
#define STORE_MAP_DEFAULT (UINT64_C(1) << 40)
#define STORE_MAP_MIN (UINT64_C(1) << 24) /* halving stops here */

struct store {
	MDB_env *env; /* NULL: closed by a failed store_replace */
	MDB_dbi dbi[STORE_DB_COUNT];
	bool has_db[STORE_DB_COUNT];
	char *dir; /* NULL: scratch or image */
	char *path;
	uint64_t map_asked;   /* bytes */
	uint64_t limit_asked; /* bytes; 0 = from the map */
	bool read_only;
	bool sync_commits;
	_Atomic bool dirty;       /* the dirty mark of this run stands */
	_Atomic bool sync_failed; /* final */
	_Atomic bool broken;      /* until it is opened anew */
	pthread_rwlock_t in_use;  /* held shared by sync and copy, alone by replace and close */
	_Atomic uint64_t copy_since_ms;
	_Atomic uint64_t used_bytes, file_bytes, limit_bytes, reserve_bytes;
};

struct store_txn {
	struct store *store;
	MDB_txn *txn;    /* innermost */
	MDB_txn *parent; /* NULL unless a child is open */
	bool writes;
	bool made_dbs;               /* store_create_missing ran: handles live or die with the commit */
	bool had_db[STORE_DB_COUNT]; /* before it did */
	struct err error;
};

struct store_cursor {
	MDB_cursor *cursor; /* NULL: the database is missing, so it is empty */
	struct store_txn *txn;
	enum store_db db;
};

/* Our code for LMDB's or the system's. */
int store_code(int rc);
/* Fills `e` with "<what>: <LMDB's or the system's text>" and returns the code. */
int store_fail(struct err *e, int rc, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Room as of `t`, to be shown once it is committed. */
struct store_usage {
	uint64_t used_pages;
};
int store_measure(struct store_txn *t, struct store_usage *out);
void store_show_usage(struct store *s, const struct store_usage *u);
void store_fit_file(struct store *s); /* after a commit: long enough for its last page */

/* meta.c: the image that was written from `from` on reaches to its last page, whatever the copied file did. What
 * is no regular file is left as it is. */
MUST_CHECK int store_pad_image(int fd, off_t from, struct err *e);

/* mark.c; durable on return */
MUST_CHECK int store_mark_dirty(const char *dir, struct err *e);
MUST_CHECK int store_mark_clean(const char *dir, uint64_t txn_id, struct err *e);
int store_mark_remove(const char *dir, struct err *e);
int store_sync_dir(const char *dir, struct err *e);

#endif /* STORE_STORE_INTERNAL_H */
