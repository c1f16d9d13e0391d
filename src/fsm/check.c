/* The slow, obvious version of everything that is kept up incrementally: each record says what ought to be derived from
 * it, each derived database has as many rows as the records asked for, each digest is counted anew. */
#include <string.h>

#include "fsm/fsm_internal.h"

struct check {
	struct store_txn *txn;
	struct err *e;
	struct arena arena; /* of one record */
	struct buf scratch;
	struct apply reader;               /* for the calls that read with it; judges, so it cannot write */
	uint64_t expected[STORE_DB_COUNT]; /* rows of derived databases */
	uint64_t schema_bytes;
};

static int wrong(struct check *c, enum store_db db, struct str key, const char *what)
{
	return err_set(c->e, ERR_CORRUPT, "%s \"" STR_FMT "\": %s", store_db_name(db), STR_ARG(key), what);
}

static int failed(struct check *c, int rc)
{
	if (c->reader.err.code != rc)
		return fsm_txn_err(c->txn, rc, c->e);
	if (c->e)
		*c->e = c->reader.err;
	return rc;
}

typedef int check_fn(struct check *c, struct str key, struct str value);

static int for_each(struct check *c, enum store_db db, check_fn *fn)
{
	struct store_cursor *cursor;
	struct str k, v;
	int rc = store_cursor_open(c->txn, db, &cursor);
	if (rc)
		return failed(c, rc);
	rc = store_cursor_seek(cursor, (struct str){ NULL, 0 }, &k, &v);
	while (rc == 0) {
		arena_reset(&c->arena);
		c->reader.err.code = 0;
		rc = fn(c, k, v);
		if (rc)
			break;
		rc = store_cursor_next(cursor, &k, &v);
		if (rc && rc != ERR_NOTFOUND)
			rc = failed(c, rc);
	}
	store_cursor_close(cursor);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* A derived row that ought to be there, with this value unless NULL. */
static int expect(struct check *c, enum store_db db, struct str key, const struct str *value)
{
	struct str v;
	int rc = store_get(c->txn, db, key, &v);
	if (rc == ERR_NOTFOUND)
		return wrong(c, db, key, "missing");
	if (rc)
		return failed(c, rc);
	if (value && !str_eq(v, *value))
		return wrong(c, db, key, "another value than the records say");
	c->expected[db]++;
	return 0;
}

/* ---- topics ---- */

static int check_slots(struct check *c, const struct topic_state *t)
{
	for (uint32_t p = 0; p < t->packed.count; p++) {
		const struct slot *s = &t->packed.slots[p];
		struct place row = { .topic = t->rec.name };
		int rc = place_load(&c->reader, t->rec.name, p, &row);
		if (rc && rc != ERR_NOTFOUND)
			return failed(c, rc);
		if (!str_eq(s->owner, row.owner) || !str_eq(s->target, row.target) ||
		    s->leaderless != (row.owner.len == 0 && row.set.count > 0))
			return wrong(c, STORE_X_TOPIC, t->rec.name, "a slot says otherwise than its row");
		if ((s->target.len > 0) != (s->move_id > 0) || s->version == 0 || s->move_id > s->version)
			return wrong(c, STORE_X_TOPIC, t->rec.name, "a slot's version and move do not fit");
	}
	return 0;
}

static int check_packed(struct check *c, const struct topic_state *t, struct str stored)
{
	struct topic_extra extra;
	int rc = topic_extra_load(&c->reader, t->rec.name, &extra);
	if (rc)
		return failed(c, rc);
	c->expected[STORE_X_LABELS] += !topic_extra_is_default(&extra);
	if (t->packed.replicated != (extra.replicas > 1))
		return wrong(c, STORE_X_TOPIC, t->rec.name, "replicated or not, other than the topic's settings say");
	buf_clear(&c->scratch);
	fsm_put_topic_tail(&t->rec, &extra, &c->scratch);
	if (!str_eq(t->packed.tail, (struct str){ (const char *)c->scratch.data, c->scratch.len }))
		return wrong(c, STORE_X_TOPIC, t->rec.name, "another tail than the record's");
	buf_clear(&c->scratch);
	packed_encode(&t->packed, &c->scratch);
	if (!str_eq(stored, (struct str){ (const char *)c->scratch.data, c->scratch.len }))
		return wrong(c, STORE_X_TOPIC, t->rec.name, "not in its canonical form");
	return check_slots(c, t);
}

static int check_topic(struct check *c, struct str key, struct str value)
{
	uint8_t at[STORE_KEY_MAX];
	struct schema_history h;
	struct topic_state t;
	struct str stored;
	(void)value;
	int rc = topic_state_load(&c->reader, key, &t);
	if (rc == 0)
		rc = store_get(c->txn, STORE_X_TOPIC, key, &stored);
	if (rc)
		return failed(c, rc);
	c->expected[STORE_X_TOPIC]++;
	rc = check_packed(c, &t, stored);
	if (rc == 0)
		rc = expect(c, STORE_X_FOLD, key_fold(at, key), NULL);
	if (rc == 0 && t.rec.owner.len)
		rc = expect(c, STORE_X_BY_USER, key_pair(at, t.rec.owner, key), NULL);
	if (rc == 0 && topic_is_stub(&t.rec))
		rc = expect(c, STORE_X_BY_REMOTE, key_pair(at, t.rec.remote->name, key), &t.rec.remote->topic);
	char unplaced[4];
	put_le32(unplaced, packed_unplaced(&t.packed));
	if (rc == 0 && packed_unplaced(&t.packed))
		rc = expect(c, STORE_X_UNPLACED, key, &(struct str){ unplaced, sizeof(unplaced) });
	if (rc)
		return rc;
	rc = schema_load(&c->reader, key, false, &h);
	if (rc)
		return failed(c, rc);
	if (t.packed.schema_version != (h.count ? h.items[h.count - 1].version : 0))
		return wrong(c, STORE_X_TOPIC, key, "another schema version than the rows'");
	return 0;
}

/* ---- assignments ---- */

static int expect_held(struct check *c, const struct place *row, struct str member)
{
	uint8_t at[STORE_KEY_MAX];
	const char roles = (char)place_roles(row, member);
	return expect(c, STORE_X_BY_MEMBER, key_held(at, member, row->topic, row->partition),
	              &(struct str){ &roles, 1 });
}

static int expect_copies(struct check *c, const struct place *row)
{
	int rc = 0;
	for (size_t i = 0; i < row->set.count && rc == 0; i++)
		if (!str_eq(row->set.items[i].id, row->owner))
			rc = expect_held(c, row, row->set.items[i].id);
	return rc;
}

/* Of a partition with a leader the rest is checked with its row of `assignments`. */
static int check_replicas(struct check *c, struct str key, struct str value)
{
	struct packed packed;
	struct place row;
	struct str topic;
	uint32_t partition;
	(void)value;
	if (!key_place_parse(key, &topic, &partition))
		return wrong(c, STORE_X_REPLICAS, key, "not a partition's key");
	int rc = packed_load(&c->reader, topic, &packed);
	if (rc == 0)
		rc = place_load(&c->reader, topic, partition, &row);
	if (rc)
		return rc == ERR_NOTFOUND ? wrong(c, STORE_X_REPLICAS, key, "no such topic") : failed(c, rc);
	if (!packed.replicated || partition >= packed.count || row.set.epoch == 0)
		return wrong(c, STORE_X_REPLICAS, key, "copies of a partition that has none");
	if (row.owner.len && !str_eq(row.set.items[0].id, row.owner))
		return wrong(c, STORE_X_REPLICAS, key, "the leader does not come first");
	for (size_t i = 0; i < row.set.count; i++)
		for (size_t k = 0; k < i; k++)
			if (str_eq(row.set.items[i].id, row.set.items[k].id))
				return wrong(c, STORE_X_REPLICAS, key, "two copies on one member");
	c->expected[STORE_X_REPLICAS]++;
	if (row.owner.len)
		return 0;
	rc = expect(c, STORE_X_LEADERLESS, key, NULL);
	return rc ? rc : expect_copies(c, &row);
}

static int check_assignment(struct check *c, struct str key, struct str value)
{
	uint8_t at[STORE_KEY_MAX];
	struct place row;
	struct packed packed;
	struct str topic;
	int64_t partition;
	(void)value;
	if (!row_key_parse(key, &topic, &partition))
		return wrong(c, STORE_ASSIGNMENTS, key, "not a partition's key");
	int rc = place_load(&c->reader, topic, partition, &row);
	if (rc)
		return failed(c, rc);
	rc = expect_held(c, &row, row.owner);
	if (rc == 0 && row.target.len && !str_eq(row.target, row.owner))
		rc = expect_held(c, &row, row.target);
	if (rc == 0)
		rc = expect_copies(c, &row);
	if (rc == 0 && row.target.len)
		rc = expect(c, STORE_X_MOVE, key_place(at, topic, row.partition), &row.target);
	if (rc)
		return rc;
	rc = packed_load(&c->reader, topic, &packed);
	if (rc && rc != ERR_NOTFOUND)
		return failed(c, rc);
	if (rc == ERR_NOTFOUND || row.partition >= packed.count)
		return expect(c, STORE_X_ORPHAN, key_place(at, topic, row.partition), NULL);
	return 0;
}

/* ---- members ---- */

static int count_held(struct check *c, struct str member, struct fsm_member_counts *out)
{
	struct fsm_place_iter it;
	struct fsm_place p;
	struct place row;
	int rc = fsm_held_open(&it, c->txn, member, NULL);
	*out = (struct fsm_member_counts){ 0 };
	while (rc == 0 && (rc = fsm_place_next(&it, &p)) == 0) {
		rc = place_load(&c->reader, p.topic, p.partition, &row);
		if (rc)
			break;
		out->owned += (p.roles & FSM_ROLE_OWNER) != 0;
		out->coming += (p.roles & FSM_ROLE_TARGET) != 0;
		out->leaving += (p.roles & FSM_ROLE_OWNER) && row.target.len;
		out->leads += (p.roles & FSM_ROLE_OWNER) && row.set.count > 0;
		out->follows += (p.roles & FSM_ROLE_REPLICA) && !(p.roles & FSM_ROLE_OWNER);
	}
	fsm_place_close(&it);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static int check_counts(struct check *c, struct str member)
{
	struct fsm_member_counts counted;
	struct fsm_member_extra extra;
	int rc = count_held(c, member, &counted);
	if (rc == 0)
		rc = fsm_get_member_extra(c->txn, member, &extra);
	if (rc)
		return failed(c, rc);
	if (memcmp(&counted, &extra.counts, sizeof(counted)) != 0)
		return wrong(c, STORE_X_MEMBER, member, "counts differ from the rows");
	return 0;
}

static int check_member_row(struct check *c, struct str key, struct str value)
{
	struct member_row row;
	if (!member_row_decode(value, &row))
		return wrong(c, STORE_X_MEMBER, key, "not a row of this release");
	if (member_row_is_default(&row))
		return wrong(c, STORE_X_MEMBER, key, "a row of defaults is kept");
	return check_counts(c, key);
}

/* Only the first of a member's places counts it: keys of one member stand together. */
static int check_held(struct check *c, struct str key, struct str value)
{
	const char *nul = memchr(key.p, '\0', key.len);
	(void)value;
	if (!nul)
		return wrong(c, STORE_X_BY_MEMBER, key, "not a place's key");
	const struct str member = { key.p, (size_t)(nul - key.p) };
	struct fsm_place_iter it;
	struct fsm_place first = { 0 };
	struct str topic;
	uint32_t partition;
	const struct str rest = { nul + 1, key.len - member.len - 1 };
	if (!key_place_parse(rest, &topic, &partition))
		return wrong(c, STORE_X_BY_MEMBER, key, "not a place's key");
	int rc = fsm_held_open(&it, c->txn, member, NULL);
	if (rc == 0)
		rc = fsm_place_next(&it, &first);
	const bool is_first = rc == 0 && first.partition == partition && str_eq(first.topic, topic);
	fsm_place_close(&it);
	if (rc)
		return failed(c, rc);
	return is_first ? check_counts(c, member) : 0;
}

static int check_member(struct check *c, struct str key, struct str value)
{
	struct member m;
	(void)value;
	int rc = fsm_get_record(&c->reader, STORE_MEMBERS, key, &member_type, &m);
	if (rc)
		return failed(c, rc);
	return str_eq(m.id, key) ? 0 : wrong(c, STORE_MEMBERS, key, "the record is not the one of its key");
}

/* ---- users ---- */

static int check_user(struct check *c, struct str key, struct str value)
{
	struct user u;
	(void)value;
	int rc = fsm_get_record(&c->reader, STORE_USERS, key, &user_type, &u);
	if (rc)
		return failed(c, rc);
	return str_eq(u.username, key) ? 0 : wrong(c, STORE_USERS, key, "the record is not the one of its key");
}

/* ---- remotes ---- */

static int check_remote(struct check *c, struct str key, struct str value)
{
	struct remote_keys keys;
	struct remote r;
	(void)value;
	if (str_is(key, REMOTE_KEYS_KEY)) {
		int rc = fsm_get_record(&c->reader, STORE_REMOTES, key, &remote_keys_type, &keys);
		return rc ? failed(c, rc) : 0;
	}
	int rc = fsm_get_record(&c->reader, STORE_REMOTES, key, &remote_type, &r);
	if (rc)
		return failed(c, rc);
	return str_eq(r.name, key) ? 0 : wrong(c, STORE_REMOTES, key, "the record is not the one of its key");
}

/* ---- the whole ---- */

static int check_schema(struct check *c, struct str key, struct str value)
{
	struct str topic;
	int64_t version;
	c->schema_bytes += value.len;
	return row_key_parse(key, &topic, &version) ? 0 : wrong(c, STORE_SCHEMAS, key, "not a version's key");
}

/* Each derived row was asked for by a record, and no row more. */
static int check_row_counts(struct check *c)
{
	static const enum store_db derived[] = { STORE_X_TOPIC,     STORE_X_FOLD,      STORE_X_BY_MEMBER,
		                                 STORE_X_BY_USER,   STORE_X_MOVE,      STORE_X_UNPLACED,
		                                 STORE_X_ORPHAN,    STORE_X_LABELS,    STORE_X_REPLICAS,
		                                 STORE_X_BY_REMOTE, STORE_X_LEADERLESS };
	for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++) {
		uint64_t n;
		int rc = store_count(c->txn, derived[i], &n);
		if (rc)
			return failed(c, rc);
		if (n != c->expected[derived[i]])
			return err_set(c->e, ERR_CORRUPT, "%s: %llu rows, the records ask for %llu",
			               store_db_name(derived[i]), (unsigned long long)n,
			               (unsigned long long)c->expected[derived[i]]);
	}
	return 0;
}

static int check_digests(struct check *c)
{
	struct fsm_digest kept, counted;
	struct fsm_state s;
	int rc = fsm_state_load(c->txn, &s);
	if (rc == 0)
		rc = fsm_get_digest(c->txn, &kept);
	if (rc == 0)
		rc = fsm_count_digest(c->txn, &counted);
	if (rc)
		return failed(c, rc);
	if (s.schema_bytes != c->schema_bytes)
		return err_set(c->e, ERR_CORRUPT, "schemas: %llu bytes counted, %llu noted",
		               (unsigned long long)c->schema_bytes, (unsigned long long)s.schema_bytes);
	for (int db = 0; db < STORE_DB_COUNT; db++)
		if (kept.db[db] != counted.db[db])
			return err_set(c->e, ERR_CORRUPT, "%s: digest %016llx counted, %016llx kept",
			               store_db_name((enum store_db)db), (unsigned long long)counted.db[db],
			               (unsigned long long)kept.db[db]);
	return 0;
}

int fsm_check(struct store_txn *txn, struct err *e)
{
	struct fsm_hint hint;
	struct check c = { .txn = txn, .e = e };
	c.reader = (struct apply){ .txn = txn, .arena = &c.arena, .hint = &hint };
	int rc = for_each(&c, STORE_TOPICS, check_topic);
	if (rc == 0)
		rc = for_each(&c, STORE_ASSIGNMENTS, check_assignment);
	if (rc == 0)
		rc = for_each(&c, STORE_X_REPLICAS, check_replicas);
	if (rc == 0)
		rc = for_each(&c, STORE_MEMBERS, check_member);
	if (rc == 0)
		rc = for_each(&c, STORE_USERS, check_user);
	if (rc == 0)
		rc = for_each(&c, STORE_REMOTES, check_remote);
	if (rc == 0)
		rc = for_each(&c, STORE_SCHEMAS, check_schema);
	if (rc == 0)
		rc = for_each(&c, STORE_X_MEMBER, check_member_row);
	if (rc == 0)
		rc = for_each(&c, STORE_X_BY_MEMBER, check_held);
	if (rc == 0)
		rc = check_row_counts(&c);
	if (rc == 0)
		rc = check_digests(&c);
	fsm_apply_fini(&c.reader);
	buf_fini(&c.scratch);
	arena_fini(&c.arena);
	return rc;
}
