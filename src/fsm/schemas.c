/* Schema versions: rows "<topic>:<version>", appended one by one, a parent's to its local children too. */
#include <stdlib.h>
#include <string.h>

#include "fsm/fsm_internal.h"
#include "model/rules.h"

static int by_version(const void *x, const void *y)
{
	const struct fsm_schema *a = x, *b = y;
	return (a->version > b->version) - (a->version < b->version);
}

/* Walks the rows of a topic. Keys order as text ("10" before "2"), so the greatest version is found by looking at all.
 */
static int walk(struct store_txn *txn, struct str topic, struct buf *found, uint64_t *bytes, struct str *bad)
{
	char prefix[ROW_KEY_MAX];
	struct store_cursor *c;
	struct str key, doc, name;
	int64_t version;
	if (topic.len == 0 || topic.len >= sizeof(prefix))
		return 0;
	memcpy(prefix, topic.p, topic.len);
	prefix[topic.len] = ':';
	const struct str begins = { prefix, topic.len + 1 };
	int rc = store_cursor_open(txn, STORE_SCHEMAS, &c);
	if (rc)
		return rc;
	for (rc = store_cursor_seek(c, begins, &key, &doc); rc == 0 && str_starts(key, begins);
	     rc = store_cursor_next(c, &key, &doc)) {
		if (!row_key_parse(key, &name, &version) || version < 1 || version > UINT32_MAX) {
			*bad = key;
			rc = ERR_CORRUPT;
			break;
		}
		const struct fsm_schema v = { (uint32_t)version, doc };
		buf_put(found, &v, sizeof(v));
		*bytes += doc.len;
	}
	store_cursor_close(c);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* `bad`: the key to blame for ERR_CORRUPT, empty for damage below. */
static int list(struct store_txn *txn, struct str topic, struct arena *arena, struct schema_history *out,
                struct str *bad)
{
	struct buf found = { 0 };
	*out = (struct schema_history){ 0 };
	*bad = (struct str){ "", 0 };
	int rc = walk(txn, topic, &found, &out->bytes, bad);
	if (rc == 0 && found.len) {
		out->count = found.len / sizeof(*out->items);
		out->items = arena_dup(arena, found.data, found.len);
		qsort(out->items, out->count, sizeof(*out->items), by_version);
	}
	buf_fini(&found);
	return rc;
}

int schema_load(struct apply *a, struct str topic, bool documents, struct schema_history *out)
{
	struct str bad;
	int rc = list(a->txn, topic, a->arena, out, &bad);
	if (rc)
		return bad.len ? fsm_corrupt(a, STORE_SCHEMAS, bad, "not a version's key") : rc;
	for (size_t i = 0; i < out->count; i++) {
		struct str *d = &out->items[i].document;
		d->p = documents ? arena_dup(a->arena, d->p, d->len) : NULL; /* a write moves what is borrowed */
	}
	return 0;
}

int fsm_get_schemas(struct store_txn *txn, struct str topic, struct arena *arena, struct fsm_schema **items,
                    size_t *count)
{
	struct schema_history h;
	struct str bad;
	int rc = list(txn, topic, arena, &h, &bad);
	*items = h.items;
	*count = h.count;
	return rc;
}

static uint32_t latest_of(const struct schema_history *h)
{
	return h->count ? h->items[h->count - 1].version : 0;
}

int schema_append(struct apply *a, struct str topic, uint32_t version, struct str document)
{
	char key[ROW_KEY_MAX];
	struct packed old, packed;
	int rc = fsm_put(a, STORE_SCHEMAS, (struct str){ key, row_key(key, topic, version) }, document, 0);
	if (rc)
		return rc;
	a->work->state.schema_bytes += document.len;
	rc = packed_load(a, topic, &old);
	if (rc)
		return rc == ERR_NOTFOUND
		           ? 0
		           : rc; /* a child that is listed and not there: its row is written all the same */
	packed = old;
	packed.schema_version = version;
	packed.changed_index = a->index;
	return packed_store(a, topic, &old, &packed);
}

int schema_cluster_bytes(struct apply *a, uint64_t *out)
{
	struct fsm_state s;
	if (a->work) {
		*out = a->work->state.schema_bytes;
		return 0;
	}
	int rc = fsm_state_load(a->txn, &s);
	if (rc == 0)
		*out = s.schema_bytes;
	return rc;
}

/* ---- types 4 and 26 ---- */

struct target {
	struct str name;
	struct schema_history history;
};

static int judge_version(const struct schema_history *h, int64_t version)
{
	const int64_t latest = latest_of(h);
	if (version <= latest)
		return FSM_SCHEMA_EXISTS;
	if (version > latest + 1)
		return FSM_SCHEMA_GAP;
	return version > SCHEMA_VERSIONS_MAX ? FSM_SCHEMA_FULL : 0;
}

/* A child that lives on another cluster keeps its own schema; one that is listed but gone counts as local. */
static int is_remote_child(struct apply *a, struct str name, bool *out)
{
	struct topic child;
	int rc = fsm_get_record(a, STORE_TOPICS, name, &topic_type, &child);
	*out = rc == 0 && child.remote;
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* The topic itself, then its local children in the order of the list. */
static int collect_targets(struct apply *a, const struct topic *t, struct target **out, size_t *count)
{
	struct target *list = arena_zalloc(a->arena, (1 + t->children.count) * sizeof(*list));
	size_t n = 0;
	list[n++].name = t->name;
	for (size_t i = 0; i < t->children.count; i++) {
		bool remote;
		int rc = is_remote_child(a, t->children.items[i], &remote);
		if (rc)
			return rc;
		if (!remote)
			list[n++].name = t->children.items[i];
	}
	for (size_t i = 0; i < n; i++) {
		int rc = schema_load(a, list[i].name, false, &list[i].history);
		if (rc)
			return rc;
	}
	*out = list;
	*count = n;
	return 0;
}

static int by_name(const void *x, const void *y)
{
	return str_cmp((*(const struct target *const *)x)->name, (*(const struct target *const *)y)->name);
}

/* Each topic's copy counts for that topic, in the order of names; then all of them for the cluster. */
static int judge_budgets(struct apply *a, const struct target *list, size_t n, uint64_t bytes)
{
	uint64_t cluster;
	if (bytes == 0)
		return 0;
	const struct target **sorted = arena_alloc(a->arena, n * sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		sorted[i] = &list[i];
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i]->history.bytes + bytes > SCHEMA_TOPIC_BYTES_MAX) {
			fsm_set_hint(a, sorted[i]->name);
			return FSM_SCHEMA_FULL;
		}
	}
	int rc = schema_cluster_bytes(a, &cluster);
	if (rc)
		return rc;
	return cluster + bytes * n > SCHEMA_CLUSTER_BYTES_MAX ? FSM_SCHEMA_FULL : 0;
}

int schema_judge_first(struct apply *a, struct str topic, struct str document)
{
	const struct target only = { .name = topic };
	return judge_budgets(a, &only, 1, document.len);
}

static int append_version(struct apply *a, const struct topic *t, int64_t version, struct str doc, bool budgets)
{
	struct target *list = NULL;
	size_t n = 0;
	if (topic_is_child(t))
		return FSM_SCHEMA_MANAGED;
	int rc = collect_targets(a, t, &list, &n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = judge_version(&list[i].history, version);
		if (rc > 0)
			fsm_set_hint(a, list[i].name);
	}
	if (rc == 0 && budgets)
		rc = judge_budgets(a, list, n, doc.len);
	if (rc || is_judging(a))
		return rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = schema_append(a, list[i].name, (uint32_t)version, doc);
	return rc;
}

int fsm_schema_put(struct apply *a, const void *command)
{
	const struct cmd_schema_put *c = command;
	struct topic t;
	int rc = fsm_get_record(a, STORE_TOPICS, c->topic, &topic_type, &t);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_TOPIC_NOT_FOUND : rc;
	return append_version(a, &t, c->version, c->schema, false);
}

int fsm_schema_put_if(struct apply *a, const void *command)
{
	const struct cmd_schema_put_if *c = command;
	struct topic t;
	int rc = topic_record_load(a, c->topic, c->expect_id, &t);
	if (rc)
		return rc;
	return append_version(a, &t, c->version, c->schema, true);
}
