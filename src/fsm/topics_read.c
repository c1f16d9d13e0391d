#include "fsm/topics.h"

#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

/* What a reader finds wrong in a row is damage: apply would have refused to write it. */
static int read_packed(struct store_txn *txn, struct fsm_topic *out)
{
	struct str packed;
	int rc = store_get(txn, STORE_X_TOPIC, out->name, &packed);
	if (rc)
		return rc == ERR_NOTFOUND ? ERR_CORRUPT : rc;
	return packed_read_topic(packed, out) ? 0 : ERR_CORRUPT;
}

int fsm_get_topic(struct store_txn *txn, struct str name, struct fsm_topic *out)
{
	struct fsm_topic t = { .name = name };
	int rc = store_get(txn, STORE_TOPICS, name, &t.record);
	if (rc == 0)
		rc = read_packed(txn, &t);
	if (rc == 0)
		*out = t;
	return rc;
}

int fsm_get_topic_versions(struct store_txn *txn, struct str name, struct fsm_topic_versions *out)
{
	struct fsm_topic t;
	raft_index topics, rows;
	int rc = fsm_get_topic(txn, name, &t);
	if (rc == 0)
		*out = (struct fsm_topic_versions){ t.changed_index, t.owners_index };
	if (rc != ERR_NOTFOUND)
		return rc;
	/* No counter is kept for a name without a topic: the delete moved these, and nothing lowers them. */
	rc = fsm_get_domain_version(txn, FSM_DOMAIN_TOPICS, &topics);
	if (rc == 0)
		rc = fsm_get_domain_version(txn, FSM_DOMAIN_ASSIGNMENTS, &rows);
	if (rc == 0)
		*out = (struct fsm_topic_versions){ topics, topics > rows ? topics : rows };
	return rc;
}

struct str fsm_topic_json(const struct fsm_topic *t, struct arena *arena)
{
	const size_t head = t->record.len - 1; /* without the last brace */
	char *text = arena_alloc(arena, t->record.len + t->tail.len);
	memcpy(text, t->record.p, head);
	memcpy(text + head, t->tail.p, t->tail.len);
	text[head + t->tail.len] = '}';
	return (struct str){ text, head + t->tail.len + 1 };
}

struct str fsm_topic_id(struct str record)
{
	struct json_reader r;
	json_reader_init(&r, record, 0);
	if (json_next(&r) != JSON_OBJECT)
		return (struct str){ "", 0 };
	while (json_next(&r) == JSON_KEY) {
		const bool is_id = str_is(r.token, "id");
		const enum json_event ev = json_next(&r);
		if (is_id)
			return ev == JSON_STRING && !r.escaped ? r.token : (struct str){ "", 0 };
		if (!json_skip(&r, ev))
			break;
	}
	return (struct str){ "", 0 };
}

/* ---- lists ---- */

int fsm_topic_iter_open(struct fsm_topic_iter *it, struct store_txn *txn, struct str prefix, struct str after)
{
	*it = (struct fsm_topic_iter){ .txn = txn, .prefix = prefix, .after = after };
	return store_cursor_open(txn, STORE_TOPICS, &it->cursor);
}

static int first_name(struct fsm_topic_iter *it, struct fsm_topic *out)
{
	const bool behind_after = str_cmp(it->after, it->prefix) >= 0 && it->after.len > 0;
	int rc = store_cursor_seek(it->cursor, behind_after ? it->after : it->prefix, &out->name, &out->record);
	if (rc == 0 && behind_after && str_eq(out->name, it->after))
		rc = store_cursor_next(it->cursor, &out->name, &out->record);
	return rc;
}

int fsm_topic_iter_next(struct fsm_topic_iter *it, struct fsm_topic *out)
{
	struct fsm_topic t = { 0 };
	int rc = it->started ? store_cursor_next(it->cursor, &t.name, &t.record) : first_name(it, &t);
	it->started = true;
	if (rc == 0 && !str_starts(t.name, it->prefix))
		rc = ERR_NOTFOUND;
	if (rc == 0)
		rc = read_packed(it->txn, &t);
	if (rc == 0)
		*out = t;
	return rc;
}

void fsm_topic_iter_close(struct fsm_topic_iter *it)
{
	store_cursor_close(it->cursor);
	it->cursor = NULL;
}

int fsm_count_topics(struct store_txn *txn, uint64_t *out)
{
	return store_count(txn, STORE_TOPICS, out);
}

/* ---- indexes ---- */

/* First key of `db` at or behind `from` that begins with `prefix`; with `past` (then it must be `from` itself) not that
 * one. */
static int seek_key(struct store_txn *txn, enum store_db db, struct str from, struct str prefix, bool past,
                    struct str *key)
{
	struct store_cursor *c;
	int rc = store_cursor_open(txn, db, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, from, key, NULL);
	if (rc == 0 && past && str_eq(*key, from))
		rc = store_cursor_next(c, key, NULL);
	store_cursor_close(c);
	return rc == 0 && !str_starts(*key, prefix) ? ERR_NOTFOUND : rc;
}

int fsm_find_twin(struct store_txn *txn, struct str name, struct str *twin)
{
	uint8_t key[STORE_KEY_MAX];
	if (name.len == 0 || 2 * name.len + 1 > STORE_KEY_MAX)
		return ERR_NOTFOUND;
	const struct str own = key_fold(key, name);
	const struct str folded = { own.p, name.len + 1 };
	struct str found;
	int rc = seek_key(txn, STORE_X_FOLD, folded, folded, false, &found);
	if (rc == 0 && str_eq(found, own))
		rc = seek_key(txn, STORE_X_FOLD, own, folded, true, &found);
	if (rc == 0)
		*twin = (struct str){ found.p + folded.len, found.len - folded.len };
	return rc;
}

int fsm_next_unplaced(struct store_txn *txn, struct str after, struct str *name)
{
	return seek_key(txn, STORE_X_UNPLACED, after, (struct str){ "", 0 }, true, name);
}

int fsm_count_unplaced(struct store_txn *txn, uint64_t *topics, uint64_t *partitions)
{
	struct store_cursor *c;
	struct str name, count;
	*topics = *partitions = 0;
	int rc = store_cursor_open(txn, STORE_X_UNPLACED, &c);
	if (rc == 0)
		rc = store_cursor_seek(c, (struct str){ "", 0 }, &name, &count);
	for (; rc == 0; rc = store_cursor_next(c, &name, &count)) {
		if (count.len != 4) {
			rc = ERR_CORRUPT;
			break;
		}
		++*topics;
		*partitions += get_le32(count.p);
	}
	store_cursor_close(c);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int fsm_next_of_user(struct store_txn *txn, struct str user, struct str after, struct str *name)
{
	uint8_t key[STORE_KEY_MAX];
	if (user.len == 0 || user.len + 1 + after.len > STORE_KEY_MAX)
		return ERR_NOTFOUND;
	const struct str from = key_pair(key, user, after);
	const struct str prefix = { from.p, user.len + 1 };
	struct str found;
	int rc = seek_key(txn, STORE_X_BY_USER, from, prefix, true, &found);
	if (rc == 0)
		*name = (struct str){ found.p + prefix.len, found.len - prefix.len };
	return rc;
}

void fsm_write_schema(struct json_writer *w, struct str topic, uint32_t version, struct str document)
{
	json_begin_object(w);
	json_field_str(w, "topic", topic);
	json_field_u64(w, "version", version);
	json_key(w, "schema");
	json_put_doc(w, document);
	json_end_object(w);
}

int fsm_get_schema(struct store_txn *txn, struct str topic, uint32_t version, struct str *document)
{
	char key[ROW_KEY_MAX];
	const struct str at = { key, row_key(key, topic, version) };
	return at.len ? store_get(txn, STORE_SCHEMAS, at, document) : ERR_NOTFOUND;
}
