/* Remotes as readers see them. */
#include "fsm/fsm_internal.h"
#include "fsm/remotes.h"

/* Keys that begin so are never a remote's name. */
static bool is_reserved(struct str key)
{
	return key.len > 0 && key.p[0] == '_';
}

int fsm_get_remote(struct store_txn *txn, struct str name, struct str *record)
{
	return is_reserved(name) ? ERR_NOTFOUND : store_get(txn, STORE_REMOTES, name, record);
}

int fsm_get_remote_keys(struct store_txn *txn, struct arena *arena, struct remote_keys *out)
{
	struct str v;
	int rc = store_get(txn, STORE_REMOTES, STR_LIT(REMOTE_KEYS_KEY), &v);
	*out = (struct remote_keys){ 0 };
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	const struct str copy = arena_str(arena, v);
	return record_read_json(&remote_keys_type, copy, arena, out, NULL, NULL) ? ERR_CORRUPT : 0;
}

int fsm_remote_iter_open(struct fsm_remote_iter *it, struct store_txn *txn)
{
	*it = (struct fsm_remote_iter){ 0 };
	return store_cursor_open(txn, STORE_REMOTES, &it->cursor);
}

int fsm_remote_iter_next(struct fsm_remote_iter *it, struct str *name, struct str *record)
{
	int rc;
	do {
		rc = it->started ? store_cursor_next(it->cursor, name, record)
		                 : store_cursor_seek(it->cursor, (struct str){ NULL, 0 }, name, record);
		it->started = true;
	} while (rc == 0 && is_reserved(*name));
	return rc;
}

void fsm_remote_iter_close(struct fsm_remote_iter *it)
{
	store_cursor_close(it->cursor);
	it->cursor = NULL;
}

int fsm_next_of_remote(struct store_txn *txn, struct str remote, struct str after, struct str *child,
                       struct str *remote_topic)
{
	uint8_t key[STORE_KEY_MAX];
	struct store_cursor *c;
	struct str found, value;
	if (remote.len == 0 || remote.len + 1 + after.len > STORE_KEY_MAX)
		return ERR_NOTFOUND;
	const struct str from = key_pair(key, remote, after);
	const struct str prefix = { from.p, remote.len + 1 };
	int rc = store_cursor_open(txn, STORE_X_BY_REMOTE, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, from, &found, &value);
	if (rc == 0 && str_eq(found, from))
		rc = store_cursor_next(c, &found, &value);
	store_cursor_close(c);
	if (rc || !str_starts(found, prefix))
		return rc ? rc : ERR_NOTFOUND;
	*child = (struct str){ found.p + prefix.len, found.len - prefix.len };
	*remote_topic = value;
	return 0;
}

int fsm_find_linked(struct store_txn *txn, struct str remote, struct str remote_topic, struct str *child)
{
	struct str topic;
	int rc;
	*child = (struct str){ "", 0 };
	while ((rc = fsm_next_of_remote(txn, remote, *child, child, &topic)) == 0)
		if (str_eq(topic, remote_topic))
			return 0;
	return rc;
}
