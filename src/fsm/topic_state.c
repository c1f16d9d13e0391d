/* A topic as apply handles it: its record, its packed list, and the indexes by name, user and missing owner. */
#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

static const struct str nothing = { "", 0 };
static const struct packed no_slots; /* before a topic is there */

/* ---- the packed list ---- */

int packed_load(struct apply *a, struct str name, struct packed *out)
{
	struct str v;
	int rc = fsm_get_copy(a, STORE_X_TOPIC, name, &v);
	if (rc)
		return rc;
	return packed_decode(v, a->arena, out) ? 0 : fsm_corrupt(a, STORE_X_TOPIC, name, "not a row of this release");
}

static int note_partitions(struct apply *a, struct str name, const struct packed *before, const struct packed *now)
{
	struct str record;
	int rc = store_get(a->txn, STORE_TOPICS, name, &record);
	return rc ? rc : notes_partitions(a, name, fsm_topic_id(record), before, now);
}

int packed_store(struct apply *a, struct str name, const struct packed *before, const struct packed *now)
{
	const uint32_t was = packed_unplaced(before), is = packed_unplaced(now);
	char count[4];
	int rc = 0;
	put_le32(count, is);
	if (is != was)
		rc = is ? fsm_put(a, STORE_X_UNPLACED, name, (struct str){ count, sizeof(count) }, 0)
		        : fsm_del(a, STORE_X_UNPLACED, name);
	if (rc == 0)
		rc = note_partitions(a, name, before, now);
	if (rc)
		return rc;
	buf_clear(&a->value);
	packed_encode(now, &a->value);
	return fsm_put(a, STORE_X_TOPIC, name, (struct str){ (const char *)a->value.data, a->value.len }, 0);
}

static int refresh_tail(struct apply *a, struct topic_state *t)
{
	struct topic_extra extra;
	struct buf tail = { 0 };
	int rc = topic_extra_load(a, t->rec.name, &extra);
	if (rc)
		return rc;
	fsm_put_topic_tail(&t->rec, &extra, &tail);
	t->packed.replicated = extra.replicas > 1;
	t->packed.tail = (struct str){ arena_dup(a->arena, tail.data, tail.len), tail.len };
	t->packed.changed_index = a->index;
	buf_fini(&tail);
	return 0;
}

/* ---- rows that are there before their partition is ---- */

/* Gives the rows of partitions from..count-1, orphans so far, to their slots. */
static int adopt_orphans(struct apply *a, struct topic_state *t, uint32_t from)
{
	uint8_t key[STORE_KEY_MAX];
	struct str orphan, name = t->rec.name, topic;
	uint32_t p = from;
	int rc;
	while (p < t->packed.count) {
		struct store_cursor *c;
		rc = store_cursor_open(a->txn, STORE_X_ORPHAN, &c);
		if (rc)
			return rc;
		rc = store_cursor_seek(c, key_place(key, name, p), &orphan, NULL);
		const bool found = rc == 0 && key_place_parse(orphan, &topic, &p) && str_eq(topic, name);
		store_cursor_close(c);
		if (rc && rc != ERR_NOTFOUND)
			return rc;
		if (!found || p >= t->packed.count)
			break;
		struct place place;
		rc = place_load(a, name, p, &place);
		if (rc == ERR_NOTFOUND)
			return fsm_corrupt(a, STORE_X_ORPHAN, name, "an orphan without a row");
		if (rc == 0)
			rc = fsm_del(a, STORE_X_ORPHAN, key_place(key, name, p));
		if (rc)
			return rc;
		t->packed.slots[p] = (struct slot){
			.owner = place.owner,
			.target = place.target,
			.version = a->index,
			.move_id = place.target.len ? a->index : 0,
		};
		p++;
	}
	return 0;
}

/* Rows of slots that are no more become orphans again: type 2 may shrink a topic, and keeps the rows. */
static int disown_slots(struct apply *a, struct str name, const struct packed *before, uint32_t from)
{
	uint8_t key[STORE_KEY_MAX];
	for (uint32_t p = from; p < before->count; p++) {
		int rc =
		    before->slots[p].owner.len ? fsm_put(a, STORE_X_ORPHAN, key_place(key, name, p), nothing, 0) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static int resize(struct apply *a, struct topic_state *t, const struct packed *before, uint32_t count)
{
	struct packed *p = &t->packed;
	const uint32_t kept = before->count < count ? before->count : count;
	p->count = count;
	p->owners_index = a->index;
	p->slots = arena_zalloc(a->arena, count * sizeof(*p->slots));
	for (uint32_t i = 0; i < count; i++)
		p->slots[i] = i < kept ? before->slots[i] : (struct slot){ .version = a->index };
	int rc = disown_slots(a, t->rec.name, before, count);
	return rc ? rc : adopt_orphans(a, t, kept);
}

/* ---- the whole topic ---- */

int topic_record_load(struct apply *a, struct str name, struct str expect_id, struct topic *out)
{
	int rc = fsm_get_record(a, STORE_TOPICS, name, &topic_type, out);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_TOPIC_NOT_FOUND : rc;
	return str_eq(out->id, expect_id) ? 0 : FSM_TOPIC_CHANGED;
}

int topic_state_load(struct apply *a, struct str name, struct topic_state *out)
{
	int rc = fsm_get_record(a, STORE_TOPICS, name, &topic_type, &out->rec);
	if (rc)
		return rc;
	if (!str_eq(out->rec.name, name))
		return fsm_corrupt(a, STORE_TOPICS, name, "the record is not the one of its key");
	rc = packed_load(a, name, &out->packed);
	if (rc == ERR_NOTFOUND || (rc == 0 && out->packed.count != out->rec.partitions))
		return fsm_corrupt(a, STORE_X_TOPIC, name, "does not fit the topic's record");
	return rc;
}

static int index_owner(struct apply *a, struct str name, struct str was, struct str is)
{
	uint8_t key[STORE_KEY_MAX];
	if (str_eq(was, is))
		return 0;
	int rc = was.len ? fsm_del(a, STORE_X_BY_USER, key_pair(key, was, name)) : 0;
	if (rc == 0 && is.len)
		rc = fsm_put(a, STORE_X_BY_USER, key_pair(key, is, name), nothing, 0);
	return rc;
}

int topic_state_insert(struct apply *a, const struct topic *rec, struct topic_state *out)
{
	uint8_t key[STORE_KEY_MAX];
	*out = (struct topic_state){ .rec = *rec };
	int rc = fsm_put_record(a, STORE_TOPICS, rec->name, &topic_type, rec, 0);
	if (rc == 0)
		rc = fsm_put(a, STORE_X_FOLD, key_fold(key, rec->name), nothing, 0);
	if (rc == 0)
		rc = index_owner(a, rec->name, nothing, rec->owner);
	if (rc == 0)
		rc = remote_index_stub(a, rec->name, NULL, topic_is_stub(rec) ? rec->remote : NULL);
	if (rc == 0)
		rc = resize(a, out, &no_slots, (uint32_t)rec->partitions);
	if (rc == 0)
		rc = refresh_tail(a, out);
	return rc ? rc : packed_store(a, rec->name, &no_slots, &out->packed);
}

int topic_state_rewrite(struct apply *a, const struct topic *old, struct topic_state *t)
{
	const struct packed before = t->packed;
	int rc = fsm_put_record(a, STORE_TOPICS, old->name, &topic_type, &t->rec, 0);
	if (rc == 0)
		rc = index_owner(a, old->name, old->owner, t->rec.owner);
	if (rc == 0)
		rc = remote_index_stub(a, old->name, topic_is_stub(old) ? old->remote : NULL,
		                       topic_is_stub(&t->rec) ? t->rec.remote : NULL);
	if (rc == 0 && old->partitions != t->rec.partitions)
		rc = resize(a, t, &before, (uint32_t)t->rec.partitions);
	if (rc == 0)
		rc = refresh_tail(a, t);
	return rc ? rc : packed_store(a, old->name, &before, &t->packed);
}

int topic_state_retail(struct apply *a, struct topic_state *t)
{
	const struct packed before = t->packed;
	int rc = refresh_tail(a, t);
	return rc ? rc : packed_store(a, t->rec.name, &before, &t->packed);
}

/* ---- rows under a name ---- */

/* First key of `db` that begins with "<name>:", copied into `key`. ERR_NOTFOUND: none. */
static int first_row(struct apply *a, enum store_db db, struct str name, char key[STORE_KEY_MAX], struct str *out)
{
	struct store_cursor *c;
	struct str found;
	memcpy(key, name.p, name.len);
	key[name.len] = ':';
	const struct str prefix = { key, name.len + 1 };
	int rc = store_cursor_open(a->txn, db, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, prefix, &found, NULL);
	if (rc == 0 && !str_starts(found, prefix))
		rc = ERR_NOTFOUND;
	if (rc == 0) {
		memcpy(key, found.p, found.len);
		*out = (struct str){ key, found.len };
	}
	store_cursor_close(c);
	return rc;
}

static int clear_assignments(struct apply *a, struct str name)
{
	char key[STORE_KEY_MAX];
	struct str row, topic;
	struct place place;
	int64_t partition;
	int rc;
	while ((rc = first_row(a, STORE_ASSIGNMENTS, name, key, &row)) == 0) {
		if (!row_key_parse(row, &topic, &partition))
			return fsm_corrupt(a, STORE_ASSIGNMENTS, row, "not a partition's key");
		rc = place_load(a, name, partition, &place);
		if (rc == 0) {
			const struct place gone = { .topic = name, .partition = place.partition };
			rc = place_store(a, &place, &gone);
		}
		if (rc)
			return rc == ERR_NOTFOUND ? fsm_corrupt(a, STORE_ASSIGNMENTS, row, "not a partition's key")
			                          : rc;
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static int clear_schemas(struct apply *a, struct str name)
{
	char key[STORE_KEY_MAX];
	struct str row, document;
	int rc;
	while ((rc = first_row(a, STORE_SCHEMAS, name, key, &row)) == 0) {
		rc = store_get(a->txn, STORE_SCHEMAS, row, &document);
		if (rc == 0) {
			a->work->state.schema_bytes -= document.len;
			rc = fsm_del(a, STORE_SCHEMAS, row);
		}
		if (rc)
			return rc;
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int topic_state_clear_rows(struct apply *a, struct str name)
{
	int rc = clear_assignments(a, name);
	if (rc == 0)
		rc = replicas_clear_topic(a, name);
	return rc ? rc : clear_schemas(a, name);
}

/* As a GET shows it, in the arena. */
static struct str last_record(struct apply *a, struct str name)
{
	struct fsm_topic t;
	return fsm_get_topic(a->txn, name, &t) == 0 ? fsm_topic_json(&t, a->arena) : nothing;
}

/* The packed list goes first: rows that are cleared after it need not be kept in step with it, one by one. */
int topic_state_erase(struct apply *a, const struct topic *rec)
{
	uint8_t key[STORE_KEY_MAX];
	struct packed packed;
	int rc = packed_load(a, rec->name, &packed);
	if (rc == ERR_NOTFOUND)
		return fsm_corrupt(a, STORE_X_TOPIC, rec->name, "missing beside the topic's record");
	const struct str last = rc == 0 ? last_record(a, rec->name) : nothing;
	if (rc == 0)
		rc = notes_partitions(a, rec->name, rec->id, &packed, &no_slots);
	if (rc == 0 && packed_unplaced(&packed))
		rc = fsm_del(a, STORE_X_UNPLACED, rec->name);
	if (rc == 0)
		rc = fsm_del(a, STORE_X_TOPIC, rec->name);
	if (rc == 0)
		rc = topic_state_clear_rows(a, rec->name);
	if (rc == 0)
		rc = fsm_del(a, STORE_X_LABELS, rec->name);
	if (rc == 0)
		rc = fsm_del(a, STORE_X_FOLD, key_fold(key, rec->name));
	if (rc == 0)
		rc = index_owner(a, rec->name, rec->owner, nothing);
	if (rc == 0)
		rc = remote_index_stub(a, rec->name, topic_is_stub(rec) ? rec->remote : NULL, NULL);
	if (rc == 0)
		notes_gone(a, FSM_DOMAIN_TOPICS, rec->name, last, nothing);
	return rc ? rc : fsm_del(a, STORE_TOPICS, rec->name);
}
