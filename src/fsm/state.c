/* Where a store stands: fsm_meta as Narad keeps it, and x_meta. Big-endian numbers of eight bytes; a wrong length reads
 * as 0, so that a bucket carried over from elsewhere is "nothing known" and not an error. */
#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

#define LIST_MAX 64 /* numbers in a list of x_meta */

static_assert((int)STORE_DB_COUNT <= LIST_MAX && (int)FSM_DOMAIN_COUNT <= LIST_MAX, "a list has room for all");

#define KEY_APPLIED STR_LIT("applied")
#define KEY_TXID STR_LIT("txid")
#define KEY_MAX_TYPE STR_LIT("max_entry_type")
#define KEY_TERM STR_LIT("term")
#define KEY_CONF STR_LIT("conf")
#define KEY_DIGEST STR_LIT("digest")
#define KEY_DOMAIN STR_LIT("domain")
#define KEY_SCHEMA_BYTES STR_LIT("schema_bytes")

int fsm_txn_err(struct store_txn *txn, int rc, struct err *e)
{
	if (rc >= 0)
		return rc;
	const struct err *why = store_txn_error(txn);
	if (why->code != rc)
		return err_set(e, rc, "the database: %s",
		               err_text(rc)); /* a row that is not as this folder writes them */
	if (e)
		*e = *why;
	return rc;
}

static int get_number(struct store_txn *txn, enum store_db db, struct str key, uint64_t *out)
{
	struct str v;
	int rc = store_get(txn, db, key, &v);
	*out = rc == 0 && v.len == 8 ? get_be64(v.p) : 0;
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static int put_number(struct store_txn *txn, enum store_db db, struct str key, uint64_t v)
{
	uint8_t b[8];
	put_be64(b, v);
	return store_put(txn, db, key, (struct str){ (const char *)b, sizeof(b) });
}

/* A list that an older release wrote is shorter: what it lacks is 0. */
static int get_list(struct store_txn *txn, struct str key, uint64_t *out, size_t count)
{
	struct str v;
	memset(out, 0, count * sizeof(*out));
	int rc = store_get(txn, STORE_X_META, key, &v);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	for (size_t i = 0; i < count && (i + 1) * 8 <= v.len; i++)
		out[i] = get_be64(v.p + i * 8);
	return 0;
}

static int put_list(struct store_txn *txn, struct str key, const uint64_t *v, size_t count)
{
	uint8_t b[8 * LIST_MAX];
	assert(count <= LIST_MAX);
	for (size_t i = 0; i < count; i++)
		put_be64(b + 8 * i, v[i]);
	return store_put(txn, STORE_X_META, key, (struct str){ (const char *)b, 8 * count });
}

int fsm_state_load(struct store_txn *txn, struct fsm_state *out)
{
	struct fsm_state s = { 0 };
	uint64_t max_type;
	int rc = get_number(txn, STORE_FSM_META, KEY_APPLIED, &s.applied);
	if (rc == 0)
		rc = get_number(txn, STORE_FSM_META, KEY_MAX_TYPE, &max_type);
	if (rc == 0)
		rc = get_number(txn, STORE_X_META, KEY_TERM, &s.term);
	if (rc == 0)
		rc = get_number(txn, STORE_X_META, KEY_SCHEMA_BYTES, &s.schema_bytes);
	if (rc == 0)
		rc = get_list(txn, KEY_DIGEST, s.digest, STORE_DB_COUNT);
	if (rc == 0)
		rc = get_list(txn, KEY_DOMAIN, s.domain, FSM_DOMAIN_COUNT);
	if (rc == 0)
		rc = settings_load(txn, s.settings);
	if (rc)
		return rc;
	s.max_entry_type = max_type > UINT32_MAX ? UINT32_MAX : (uint32_t)max_type;
	*out = s;
	return 0;
}

int fsm_state_save(struct store_txn *txn, const struct fsm_state *s)
{
	int rc = put_number(txn, STORE_FSM_META, KEY_APPLIED, s->applied);
	if (rc == 0)
		rc = put_number(txn, STORE_FSM_META, KEY_TXID, store_txn_id(txn));
	if (rc == 0)
		rc = put_number(txn, STORE_FSM_META, KEY_MAX_TYPE, s->max_entry_type);
	if (rc == 0)
		rc = put_number(txn, STORE_X_META, KEY_TERM, s->term);
	if (rc == 0)
		rc = put_number(txn, STORE_X_META, KEY_SCHEMA_BYTES, s->schema_bytes);
	if (rc == 0)
		rc = put_list(txn, KEY_DIGEST, s->digest, STORE_DB_COUNT);
	if (rc == 0)
		rc = put_list(txn, KEY_DOMAIN, s->domain, FSM_DOMAIN_COUNT);
	return rc;
}

/* The configuration is kept as raft/ encoded it, behind the index it stands at. */
int fsm_save_conf(struct store_txn *txn, raft_index index, const void *bytes, size_t len)
{
	uint8_t b[8 + FSM_CONF_MAX];
	if (len > FSM_CONF_MAX)
		return ERR_CORRUPT;
	put_be64(b, index);
	if (len)
		memcpy(b + 8, bytes, len);
	return store_put(txn, STORE_X_META, KEY_CONF, (struct str){ (const char *)b, 8 + len });
}

int fsm_get_index(struct store_txn *txn, raft_index *out)
{
	return get_number(txn, STORE_FSM_META, KEY_APPLIED, out);
}

int fsm_get_applied(struct store_txn *txn, struct fsm_applied *out)
{
	struct fsm_applied a = { 0 };
	struct fsm_state s;
	struct str conf;
	int rc = fsm_state_load(txn, &s);
	if (rc == 0)
		rc = get_number(txn, STORE_FSM_META, KEY_TXID, &a.txn_id);
	if (rc)
		return rc;
	a.index = s.applied;
	a.term = s.term;
	a.max_entry_type = s.max_entry_type;
	rc = store_get(txn, STORE_X_META, KEY_CONF, &conf);
	if (rc == 0 && conf.len > 8) {
		a.conf_index = get_be64(conf.p);
		a.conf = (struct str){ conf.p + 8, conf.len - 8 };
	}
	if (rc && rc != ERR_NOTFOUND)
		return rc;
	*out = a;
	return 0;
}

int fsm_get_domain_version(struct store_txn *txn, enum fsm_domain d, raft_index *out)
{
	raft_index list[FSM_DOMAIN_COUNT];
	int rc = get_list(txn, KEY_DOMAIN, list, FSM_DOMAIN_COUNT);
	if (rc == 0)
		*out = list[d];
	return rc;
}

int fsm_holds_data(struct store_txn *txn, bool *out)
{
	bool any = false;
	for (int db = 0; db < STORE_DB_COUNT; db++) {
		uint64_t n;
		if (db == STORE_FSM_META || db == STORE_X_META)
			continue;
		int rc = store_count(txn, (enum store_db)db, &n);
		if (rc)
			return rc;
		any = any || n > 0;
	}
	*out = any;
	return 0;
}
