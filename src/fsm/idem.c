/* Idempotency records.
 *
 *   x_idem     actor \0 key            ->  u64 time, u64 request hash, u64 index, u16 status, body   (little-endian)
 *   x_idem_at  u64be time, x_idem's key ->  nothing: the oldest come first
 *
 * Each record that is written lets up to PURGE_MAX expired ones go: so they never outnumber those of ten minutes by
 * much, and no entry costs more than a bounded time. */
#include "fsm/idem.h"

#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

#define HEADER 26
#define PURGE_MAX 16

static bool decode(struct str v, uint64_t *time_ms, struct fsm_idem *out)
{
	if (v.len < HEADER)
		return false;
	*time_ms = get_le64(v.p);
	*out = (struct fsm_idem){
		.request_hash = get_le64(v.p + 8),
		.index = get_le64(v.p + 16),
		.status = get_le16(v.p + 24),
		.body = { v.p + HEADER, v.len - HEADER },
	};
	return true;
}

static bool is_expired(uint64_t time_ms, uint64_t now_ms)
{
	return now_ms > time_ms && now_ms - time_ms >= FSM_IDEM_KEPT_MS;
}

int fsm_get_idem(struct store_txn *txn, struct str actor, struct str key, uint64_t now_ms, struct fsm_idem *out)
{
	uint8_t at[STORE_KEY_MAX];
	struct fsm_idem found;
	uint64_t time_ms;
	struct str v;
	int rc = store_get(txn, STORE_X_IDEM, key_pair(at, actor, key), &v);
	if (rc)
		return rc;
	if (!decode(v, &time_ms, &found))
		return ERR_CORRUPT;
	if (is_expired(time_ms, now_ms))
		return ERR_NOTFOUND;
	*out = found;
	return 0;
}

int idem_judge(struct apply *a, const struct entry_header *h)
{
	struct fsm_idem kept;
	int rc = fsm_get_idem(a->txn, h->actor, h->idem.key, a->time_ms, &kept);
	return rc == ERR_NOTFOUND ? 0 : rc ? rc : FSM_IDEMPOTENT;
}

static struct str key_at(uint8_t *out, uint64_t time_ms, struct str key)
{
	put_be64(out, time_ms);
	memcpy(out + 8, key.p, key.len);
	return (struct str){ (const char *)out, 8 + key.len };
}

/* The oldest record, if it is expired; its place by time in `out`. */
static int oldest_expired(struct apply *a, uint8_t out[STORE_KEY_MAX], struct str *at)
{
	struct store_cursor *c;
	struct str found;
	int rc = store_cursor_open(a->txn, STORE_X_IDEM_AT, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, (struct str){ "", 0 }, &found, NULL);
	if (rc == 0 && found.len < 8)
		rc = ERR_CORRUPT;
	if (rc == 0 && !is_expired(get_be64(found.p), a->time_ms))
		rc = ERR_NOTFOUND;
	if (rc == 0) {
		memcpy(out, found.p, found.len);
		*at = (struct str){ (const char *)out, found.len };
	}
	store_cursor_close(c);
	return rc;
}

static int purge(struct apply *a)
{
	uint8_t key[STORE_KEY_MAX];
	struct str at;
	int rc = 0;
	for (int i = 0; i < PURGE_MAX && rc == 0; i++) {
		rc = oldest_expired(a, key, &at);
		if (rc == 0)
			rc = fsm_del(a, STORE_X_IDEM, (struct str){ at.p + 8, at.len - 8 });
		if (rc == 0)
			rc = fsm_del(a, STORE_X_IDEM_AT, at);
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* An expired record of the same key makes room: its place by time is another. */
static int drop_old(struct apply *a, struct str key)
{
	uint8_t at[STORE_KEY_MAX];
	struct fsm_idem old;
	uint64_t time_ms;
	struct str v;
	int rc = fsm_get_copy(a, STORE_X_IDEM, key, &v);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	if (!decode(v, &time_ms, &old))
		return fsm_corrupt(a, STORE_X_IDEM, key, "not a record of this release");
	return fsm_del(a, STORE_X_IDEM_AT, key_at(at, time_ms, key));
}

int idem_keep(struct apply *a, const struct entry_header *h)
{
	uint8_t name[STORE_KEY_MAX], at[STORE_KEY_MAX], head[HEADER];
	const struct str key = key_pair(name, h->actor, h->idem.key);
	struct buf row = { 0 };
	int rc = purge(a);
	if (rc == 0)
		rc = drop_old(a, key);
	if (rc)
		return rc;
	put_le64(head, a->time_ms);
	put_le64(head + 8, h->idem.request_hash);
	put_le64(head + 16, a->index);
	put_le16(head + 24, h->idem.status);
	buf_put(&row, head, sizeof(head));
	buf_put(&row, h->idem.body.p, h->idem.body.len);
	rc = fsm_put(a, STORE_X_IDEM, key, (struct str){ (const char *)row.data, row.len }, 0);
	if (rc == 0)
		rc = fsm_put(a, STORE_X_IDEM_AT, key_at(at, a->time_ms, key), (struct str){ "", 0 }, 0);
	buf_fini(&row);
	return rc;
}
