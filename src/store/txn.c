/* Transactions, records, cursors. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_internal.h"

/* LMDB's own two databases, which hold the free list and the names of ours. */
#define DBI_FREE 0
#define DBI_MAIN 1

static int fail(struct store_txn *t, int rc, const char *what, enum store_db db)
{
	return store_fail(&t->error, rc, "%s: cannot %s database %s", t->store->path, what, store_db_name(db));
}

static MDB_val val_of(struct str s)
{
	return (MDB_val){ s.len, (void *)(uintptr_t)s.p };
}

static struct str str_of_val(const MDB_val *v)
{
	return (struct str){ v->mv_data, v->mv_size };
}

static bool is_key(struct str key)
{
	return key.len > 0 && key.len <= STORE_KEY_MAX;
}

/* ---- reading ---- */

static struct store_txn *txn_new(struct store *s, MDB_txn *txn, bool writes)
{
	struct store_txn *t = mem_zalloc(sizeof(*t));
	t->store = s;
	t->txn = txn;
	t->writes = writes;
	return t;
}

int store_begin_read(struct store *s, struct store_txn **out, struct err *e)
{
	MDB_txn *txn;
	if (!s->env)
		return err_set(e, ERR_CLOSED, "%s: not open", s->path);
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
	if (rc)
		return store_fail(e, rc, "%s: cannot begin reading", s->path);
	*out = txn_new(s, txn, false);
	return 0;
}

void store_reset_read(struct store_txn *t)
{
	assert(!t->writes);
	mdb_txn_reset(t->txn);
}

int store_renew_read(struct store_txn *t, struct err *e)
{
	assert(!t->writes);
	int rc = mdb_txn_renew(t->txn);
	return rc ? store_fail(e, rc, "%s: cannot go on reading", t->store->path) : 0;
}

/* ---- writing ---- */

int store_begin_write(struct store *s, struct store_txn **out, struct err *e)
{
	MDB_txn *txn;
	int rc;
	assert(!s->read_only);
	if (!s->env)
		return err_set(e, ERR_CLOSED, "%s: not open", s->path);
	if (atomic_load(&s->sync_failed))
		return err_set(e, ERR_IO, "%s: an earlier sync failed", s->path);
	if (s->dir && !atomic_load(&s->dirty)) {
		rc = store_mark_dirty(s->dir, e);
		if (rc)
			return rc;
		atomic_store(&s->dirty, true);
	}
	rc = mdb_txn_begin(s->env, NULL, 0, &txn);
	if (rc)
		return store_fail(e, rc, "%s: cannot begin writing", s->path);
	*out = txn_new(s, txn, true);
	return 0;
}

int store_begin_child(struct store_txn *t)
{
	MDB_txn *child;
	assert(t->writes && !t->parent);
	int rc = mdb_txn_begin(t->store->env, t->txn, 0, &child);
	if (rc)
		return store_fail(&t->error, rc, "%s: cannot begin a child transaction", t->store->path);
	t->parent = t->txn;
	t->txn = child;
	return 0;
}

int store_commit_child(struct store_txn *t)
{
	assert(t->parent);
	int rc = mdb_txn_commit(t->txn); /* frees the child in any case */
	t->txn = t->parent;
	t->parent = NULL;
	return rc ? store_fail(&t->error, rc, "%s: cannot commit a child transaction", t->store->path) : 0;
}

void store_abort_child(struct store_txn *t)
{
	assert(t->parent);
	mdb_txn_abort(t->txn);
	t->txn = t->parent;
	t->parent = NULL;
}

static void forget_made_dbs(struct store_txn *t)
{
	if (t->made_dbs)
		memcpy(t->store->has_db, t->had_db, sizeof(t->had_db));
}

/* LMDB does not say so when it happens, only to whoever comes next. */
static bool refuses_everything(struct store *s)
{
	MDB_txn *probe;
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &probe);
	if (rc == 0)
		mdb_txn_abort(probe);
	return rc == MDB_PANIC;
}

int store_commit(struct store_txn *t, struct err *e)
{
	struct store *s = t->store;
	struct store_usage usage = { 0 };
	assert(t->writes && !t->parent);
	int rc = store_measure(t, &usage);
	if (rc) {
		if (e)
			*e = t->error;
		store_abort(t);
		return rc;
	}
	rc = mdb_txn_commit(t->txn);
	if (rc) {
		forget_made_dbs(t);
		rc = store_fail(e, rc, "%s: cannot commit", s->path);
		if (refuses_everything(s))
			atomic_store(&s->broken, true);
	} else {
		store_fit_file(s);
		store_show_usage(s, &usage);
	}
	mem_free(t);
	return rc;
}

void store_abort(struct store_txn *t)
{
	if (!t)
		return;
	if (t->parent)
		store_abort_child(t);
	mdb_txn_abort(t->txn);
	forget_made_dbs(t);
	mem_free(t);
}

bool store_is_complete(const struct store *s)
{
	for (int db = 0; db < STORE_DB_COUNT; db++)
		if (!s->has_db[db])
			return false;
	return true;
}

int store_create_missing(struct store_txn *t)
{
	struct store *s = t->store;
	assert(t->writes && !t->parent && !t->made_dbs);
	memcpy(t->had_db, s->has_db, sizeof(t->had_db));
	t->made_dbs = true;
	for (int db = 0; db < STORE_DB_COUNT; db++) {
		if (s->has_db[db])
			continue;
		int rc = mdb_dbi_open(t->txn, store_db_name((enum store_db)db), MDB_CREATE, &s->dbi[db]);
		if (rc)
			return fail(t, rc, "create", (enum store_db)db);
		s->has_db[db] = true;
	}
	return 0;
}

uint64_t store_txn_id(const struct store_txn *t)
{
	return mdb_txn_id(t->txn);
}

bool store_txn_writes(const struct store_txn *t)
{
	return t->writes;
}

const struct err *store_txn_error(const struct store_txn *t)
{
	return &t->error;
}

/* ---- records ---- */

int store_get(struct store_txn *t, enum store_db db, struct str key, struct str *value)
{
	MDB_val k = val_of(key), v;
	if (!is_key(key) || !t->store->has_db[db])
		return ERR_NOTFOUND;
	int rc = mdb_get(t->txn, t->store->dbi[db], &k, &v);
	if (rc == MDB_NOTFOUND)
		return ERR_NOTFOUND;
	if (rc)
		return fail(t, rc, "read", db);
	*value = str_of_val(&v);
	return 0;
}

int store_put(struct store_txn *t, enum store_db db, struct str key, struct str value)
{
	MDB_val k = val_of(key), v = val_of(value);
	assert(t->writes);
	if (!is_key(key) || !t->store->has_db[db])
		return fail(t, MDB_BAD_VALSIZE, "write", db);
	int rc = mdb_put(t->txn, t->store->dbi[db], &k, &v, 0);
	return rc ? fail(t, rc, "write", db) : 0;
}

int store_del(struct store_txn *t, enum store_db db, struct str key)
{
	MDB_val k = val_of(key);
	assert(t->writes);
	if (!is_key(key) || !t->store->has_db[db])
		return ERR_NOTFOUND;
	int rc = mdb_del(t->txn, t->store->dbi[db], &k, NULL);
	if (rc == MDB_NOTFOUND)
		return ERR_NOTFOUND;
	return rc ? fail(t, rc, "delete from", db) : 0;
}

int store_count(struct store_txn *t, enum store_db db, uint64_t *records)
{
	MDB_stat st;
	if (!t->store->has_db[db]) {
		*records = 0;
		return 0;
	}
	int rc = mdb_stat(t->txn, t->store->dbi[db], &st);
	if (rc)
		return fail(t, rc, "count", db);
	*records = st.ms_entries;
	return 0;
}

/* ---- cursors ---- */

int store_cursor_open(struct store_txn *t, enum store_db db, struct store_cursor **out)
{
	MDB_cursor *cursor = NULL;
	if (t->store->has_db[db]) {
		int rc = mdb_cursor_open(t->txn, t->store->dbi[db], &cursor);
		if (rc)
			return fail(t, rc, "walk", db);
	}
	struct store_cursor *c = mem_alloc(sizeof(*c));
	*c = (struct store_cursor){ .cursor = cursor, .txn = t, .db = db };
	*out = c;
	return 0;
}

void store_cursor_close(struct store_cursor *c)
{
	if (!c)
		return;
	if (c->cursor)
		mdb_cursor_close(c->cursor);
	mem_free(c);
}

static int cursor_get(struct store_cursor *c, MDB_cursor_op op, struct str from, struct str *key, struct str *value)
{
	MDB_val k = val_of(from), v;
	if (!c->cursor)
		return ERR_NOTFOUND;
	int rc = mdb_cursor_get(c->cursor, &k, &v, op);
	if (rc == MDB_NOTFOUND)
		return ERR_NOTFOUND;
	if (rc)
		return fail(c->txn, rc, "walk", c->db);
	if (key)
		*key = str_of_val(&k);
	if (value)
		*value = str_of_val(&v);
	return 0;
}

int store_cursor_seek(struct store_cursor *c, struct str from, struct str *key, struct str *value)
{
	return cursor_get(c, from.len ? MDB_SET_RANGE : MDB_FIRST, from, key, value);
}

int store_cursor_next(struct store_cursor *c, struct str *key, struct str *value)
{
	return cursor_get(c, MDB_NEXT, (struct str){ NULL, 0 }, key, value);
}

/* ---- room ---- */

static int add_pages(struct store_txn *t, MDB_dbi dbi, uint64_t *pages)
{
	MDB_stat st;
	int rc = mdb_stat(t->txn, dbi, &st);
	if (rc)
		return store_fail(&t->error, rc, "%s: cannot count pages", t->store->path);
	*pages += st.ms_branch_pages + st.ms_leaf_pages + st.ms_overflow_pages;
	return 0;
}

/* Every page in use belongs to one database's tree, or is one of the two meta pages: constant time, no walk over the
 * free list. */
int store_measure(struct store_txn *t, struct store_usage *out)
{
	uint64_t pages = 2;
	int rc = add_pages(t, DBI_FREE, &pages);
	if (rc == 0)
		rc = add_pages(t, DBI_MAIN, &pages);
	for (int db = 0; rc == 0 && db < STORE_DB_COUNT; db++)
		if (t->store->has_db[db])
			rc = add_pages(t, t->store->dbi[db], &pages);
	if (rc == 0)
		out->used_pages = pages;
	return rc;
}
