/* Digests: per database the sum, mod 2^64, of XXH3-64 over each record's length-prefixed key and value.
 *
 * A sum, so that it is kept up by adding what is written and subtracting what it replaces, in any order. fsm_meta is
 * rewritten with every batch, so its two records that count are hashed when the digest is asked for; txid differs
 * between nodes by nature (batches are cut differently) and is left out. x_meta holds the digests themselves. */
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "fsm/fsm_internal.h"

uint64_t fsm_hash(struct str bytes)
{
	return XXH3_64bits(bytes.p ? bytes.p : "", bytes.len);
}

uint64_t digest_of(struct str key, struct str value, struct buf *scratch)
{
	uint8_t len[4];
	buf_clear(scratch);
	put_le32(len, (uint32_t)key.len);
	buf_put(scratch, len, sizeof(len));
	buf_put(scratch, key.p, key.len);
	put_le32(len, (uint32_t)value.len);
	buf_put(scratch, len, sizeof(len));
	buf_put(scratch, value.p, value.len);
	return XXH3_64bits(scratch->data, scratch->len);
}

bool digest_leaves_out(enum store_db db, struct str key)
{
	return db == STORE_X_META || (db == STORE_FSM_META && str_is(key, "txid"));
}

static int sum_db(struct store_txn *txn, enum store_db db, struct buf *scratch, uint64_t *sum)
{
	struct store_cursor *c;
	struct str k, v;
	int rc = store_cursor_open(txn, db, &c);
	if (rc)
		return rc;
	*sum = 0;
	for (rc = store_cursor_seek(c, (struct str){ NULL, 0 }, &k, &v); rc == 0; rc = store_cursor_next(c, &k, &v))
		if (!digest_leaves_out(db, k))
			*sum += digest_of(k, v, scratch);
	store_cursor_close(c);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static void add_up(struct fsm_digest *d)
{
	uint8_t b[8 * STORE_DB_COUNT];
	for (int db = 0; db < STORE_DB_COUNT; db++)
		put_le64(b + 8 * db, d->db[db]);
	d->total = XXH3_64bits(b, sizeof(b));
}

int fsm_get_digest(struct store_txn *txn, struct fsm_digest *out)
{
	struct fsm_digest d = { 0 };
	struct fsm_state s;
	struct buf scratch = { 0 };
	int rc = fsm_state_load(txn, &s);
	if (rc == 0) {
		memcpy(d.db, s.digest, sizeof(d.db));
		rc = sum_db(txn, STORE_FSM_META, &scratch, &d.db[STORE_FSM_META]);
	}
	buf_fini(&scratch);
	if (rc)
		return rc;
	d.index = s.applied;
	add_up(&d);
	*out = d;
	return 0;
}

int fsm_count_digest(struct store_txn *txn, struct fsm_digest *out)
{
	struct fsm_digest d = { 0 };
	struct fsm_state s;
	struct buf scratch = { 0 };
	int rc = fsm_state_load(txn, &s);
	for (int db = 0; rc == 0 && db < STORE_DB_COUNT; db++)
		if (db != STORE_X_META)
			rc = sum_db(txn, (enum store_db)db, &scratch, &d.db[db]);
	buf_fini(&scratch);
	if (rc)
		return rc;
	d.index = s.applied;
	add_up(&d);
	*out = d;
	return 0;
}

int fsm_scrub(struct store_txn *txn, enum store_db db, struct err *e)
{
	struct fsm_state s;
	struct buf scratch = { 0 };
	uint64_t sum = 0;
	if (db == STORE_FSM_META || db == STORE_X_META)
		return 0;
	int rc = fsm_state_load(txn, &s);
	if (rc == 0)
		rc = sum_db(txn, db, &scratch, &sum);
	buf_fini(&scratch);
	if (rc)
		return err_set(e, rc, "bucket %s: %s", store_db_name(db), store_txn_error(txn)->msg);
	if (sum != s.digest[db])
		return err_set(e, ERR_CORRUPT,
		               "bucket %s is damaged: at index %" PRIu64 " its records give %016" PRIx64
		               ", they were written as %016" PRIx64,
		               store_db_name(db), s.applied, sum, s.digest[db]);
	return 0;
}

int fsm_scrub_image(const char *path, struct err *e)
{
	struct store *image;
	struct store_txn *txn;
	int rc = store_open_image(path, &image, e);
	if (rc)
		return rc;
	rc = store_begin_read(image, &txn, e);
	if (rc == 0) {
		for (int db = 0; rc == 0 && db < STORE_DB_COUNT; db++)
			rc = fsm_scrub(txn, (enum store_db)db, e);
		store_abort(txn);
	}
	const int closed = store_close(image, false, rc ? NULL : e);
	return rc ? rc : closed;
}
