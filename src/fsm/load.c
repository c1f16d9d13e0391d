/* Records that come in buckets instead of entries. A topic's rows stand together in their bucket, so its packed list is
 * written once for all of them, and a member's counts once at the end: row by row, as entries would, a million of them
 * take minutes. */
#include "fsm/load.h"

#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"
#include "model/json.h"
#include "model/rules.h"

#define BATCH_BYTES (256u << 10)
#define SCHEMA_BYTES 4096 /* what a schema counts beside its own: its topic's page, which lies anywhere */
#define COUNTED_MAX 4096  /* members whose counts are held before they are written */

struct counted {
	char id[MEMBER_ID_MAX + 1];
	struct fsm_member_counts counts;
};

struct fsm_load {
	struct fsm_load_options o;
	struct store *store; /* NULL: judging only */
	struct fsm_work work;
	struct fsm_hint hint;
	struct apply a;
	struct arena arena; /* of one record */
	size_t batch_bytes;
	enum store_db db; /* the bucket under way */
	bool has_members;

	struct arena rows_arena; /* of the topic whose rows are coming */
	char topic[TOPIC_STORED_NAME_MAX];
	size_t topic_len; /* 0: none */
	bool is_there;    /* it has a packed list */
	struct packed before, now;

	struct counted counted[COUNTED_MAX]; /* by id */
	size_t counted_count;
};

/* ---- begin and commit ---- */

static int fail(struct fsm_load *l, int rc, struct err *e)
{
	if (rc && l->a.err.code == rc)
		return err_set(e, rc, "%s", l->a.err.msg);
	return rc ? fsm_txn_err(l->a.txn, rc, e) : 0;
}

int fsm_load_begin(const struct fsm_load_options *o, struct fsm_load **out, struct err *e)
{
	struct fsm_load *l = mem_zalloc(sizeof(*l));
	l->o = *o;
	l->a = (struct apply){ .arena = &l->arena, .index = o->index, .hint = &l->hint, .work = &l->work };
	l->work.state.applied = o->index;
	l->work.state.term = o->term;
	int rc = 0;
	if (o->dir) {
		const struct store_options so = { .dir = o->dir };
		rc = store_open(&so, &l->store, e);
		if (rc == 0)
			rc = store_begin_write(l->store, &l->a.txn, e);
		if (rc == 0)
			rc = fail(l, store_create_missing(l->a.txn), e);
	}
	if (rc) {
		fsm_load_abort(l);
		return rc;
	}
	*out = l;
	return 0;
}

void fsm_load_abort(struct fsm_load *l)
{
	if (!l)
		return;
	store_abort(l->a.txn);
	(void)store_close(l->store, false, NULL); /* given up: its mark says so */
	fsm_apply_fini(&l->a);
	buf_fini(&l->work.notes);
	buf_fini(&l->work.sealed);
	arena_fini(&l->arena);
	arena_fini(&l->rows_arena);
	mem_free(l);
}

static int commit(struct fsm_load *l, struct err *e)
{
	int rc = fail(l, fsm_state_save(l->a.txn, &l->work.state), e);
	if (rc)
		return rc;
	struct store_txn *txn = l->a.txn;
	l->a.txn = NULL;
	l->batch_bytes = 0;
	rc = store_commit(txn, e);
	store_drop_pages(l->store);
	return rc;
}

static int commit_if_full(struct fsm_load *l, size_t bytes, struct err *e)
{
	l->batch_bytes += bytes;
	if (l->batch_bytes < BATCH_BYTES)
		return 0;
	int rc = commit(l, e);
	return rc ? rc : store_begin_write(l->store, &l->a.txn, e);
}

/* ---- judging ---- */

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "%s", why);
}

static struct str renamed(const struct fsm_load *l, struct str id, struct fsm_loaded *out)
{
	for (size_t i = 0; i < l->o.renames.count; i++) {
		if (str_eq(l->o.renames.items[i].key, id)) {
			out->renamed = true;
			return l->o.renames.items[i].value;
		}
	}
	return id;
}

static bool is_dropped(const struct fsm_load *l, struct str id)
{
	return str_is_among(id, l->o.drops.items, l->o.drops.count);
}

/* Decoded, and compared with the bytes it came in. */
static int read(struct fsm_load *l, const struct record_type *t, struct str value, void *rec, struct fsm_loaded *out,
                struct err *e)
{
	const int rc = record_read_json(t, value, &l->arena, rec, NULL, e);
	if (rc)
		return rc;
	buf_clear(&l->a.value);
	record_put_json(t, rec, &l->a.value);
	out->rewritten = !str_eq(value, (struct str){ (const char *)l->a.value.data, l->a.value.len });
	return 0;
}

/* ---- topics and schemas ---- */

static int load_topic(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	struct topic_state made;
	struct topic t;
	int rc = read(l, &topic_type, value, &t, out, e);
	if (rc)
		return rc;
	if (!str_eq(t.name, key))
		return refuse(e, "its name is not its key");
	if (!rule_stored_topic_name(t.name))
		return refuse(e, "not a topic's name");
	if (t.partitions < 0 || t.partitions > FSM_PARTITIONS_MAX)
		return refuse(e, "more partitions than can be held");
	if (t.owner.len && !rule_user_name(t.owner))
		return refuse(e, "its owner is not a user's name");
	return l->store ? fail(l, topic_state_insert(&l->a, &t, &made), e) : 0;
}

static int load_schema(struct fsm_load *l, struct str key, struct str value, struct err *e)
{
	struct packed old, now;
	struct str topic;
	int64_t version;
	if (!row_key_parse(key, &topic, &version) || version < 1 || version > UINT32_MAX)
		return refuse(e, "its key is not topic:version");
	if (!rule_stored_topic_name(topic))
		return refuse(e, "not a topic's name");
	int rc = json_check(value, 0, &l->arena, NULL, e);
	if (rc || !l->store)
		return rc;
	l->work.state.schema_bytes += value.len;
	rc = fsm_put(&l->a, STORE_SCHEMAS, key, value, PUT_QUIET);
	if (rc == 0)
		rc = packed_load(&l->a, topic, &old);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : fail(l, rc, e);
	now = old; /* "10" comes before "2" */
	now.schema_version = version > old.schema_version ? (uint32_t)version : old.schema_version;
	return fail(l, packed_store(&l->a, topic, &old, &now), e);
}

/* ---- counts ---- */

static int write_counts(struct fsm_load *l)
{
	for (size_t i = 0; i < l->counted_count; i++) {
		const struct counted *c = &l->counted[i];
		struct member_row row;
		arena_reset(&l->arena);
		int rc = member_row_load(&l->a, str_of(c->id), &row);
		row.counts.owned += c->counts.owned;
		row.counts.coming += c->counts.coming;
		row.counts.leaving += c->counts.leaving;
		if (rc == 0)
			rc = member_row_store(&l->a, str_of(c->id), &row);
		if (rc)
			return rc;
	}
	l->counted_count = 0;
	return 0;
}

static int counts_of(struct fsm_load *l, struct str id, struct fsm_member_counts **out)
{
	size_t lo = 0, hi = l->counted_count;
	while (lo < hi) {
		const size_t mid = (lo + hi) / 2;
		const int order = str_cmp(str_of(l->counted[mid].id), id);
		if (order == 0) {
			*out = &l->counted[mid].counts;
			return 0;
		}
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (l->counted_count == COUNTED_MAX) {
		int rc = write_counts(l);
		if (rc)
			return rc;
		lo = 0;
	}
	struct counted *c = &l->counted[lo];
	memmove(c + 1, c, (l->counted_count++ - lo) * sizeof(*c));
	*c = (struct counted){ 0 };
	memcpy(c->id, id.p, id.len);
	*out = &c->counts;
	return 0;
}

static int count_row(struct fsm_load *l, const struct place *p)
{
	struct fsm_member_counts *n = NULL;
	int rc = counts_of(l, p->owner, &n);
	if (rc)
		return rc;
	n->owned++;
	n->leaving += p->target.len > 0;
	if (p->target.len == 0)
		return 0;
	rc = counts_of(l, p->target, &n);
	if (rc == 0)
		n->coming++;
	return rc;
}

/* ---- assignments ---- */

static int end_topic(struct fsm_load *l)
{
	int rc = 0;
	if (l->topic_len && l->is_there)
		rc = packed_store(&l->a, (struct str){ l->topic, l->topic_len }, &l->before, &l->now);
	l->topic_len = 0;
	return rc;
}

static int begin_topic(struct fsm_load *l, struct str name)
{
	int rc = end_topic(l);
	if (rc)
		return rc;
	memcpy(l->topic, name.p, name.len);
	l->topic_len = name.len;
	arena_reset(&l->rows_arena);
	l->a.arena = &l->rows_arena;
	rc = packed_load(&l->a, name, &l->before);
	l->a.arena = &l->arena;
	l->is_there = rc == 0;
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	l->now = l->before;
	l->now.owners_index = l->o.index;
	l->now.slots = arena_dup(&l->rows_arena, l->before.slots, l->before.count * sizeof(*l->before.slots));
	return 0;
}

static struct str keep(struct fsm_load *l, struct str s)
{
	return arena_str(&l->rows_arena, s);
}

static int hold(struct fsm_load *l, const struct place *p, struct str member)
{
	uint8_t key[STORE_KEY_MAX];
	const uint8_t roles = place_roles(p, member);
	return fsm_put(&l->a, STORE_X_BY_MEMBER, key_held(key, member, p->topic, p->partition),
	               (struct str){ (const char *)&roles, 1 }, PUT_QUIET);
}

static int write_row(struct fsm_load *l, struct str key, const struct assignment *row, const struct place *p)
{
	uint8_t at[STORE_KEY_MAX];
	int rc = 0;
	if (l->topic_len == 0 || !str_eq(p->topic, (struct str){ l->topic, l->topic_len }))
		rc = begin_topic(l, p->topic);
	if (rc == 0)
		rc = fsm_put_record(&l->a, STORE_ASSIGNMENTS, key, &assignment_type, row, PUT_QUIET);
	if (rc == 0)
		rc = hold(l, p, p->owner);
	if (rc == 0 && p->target.len && !str_eq(p->target, p->owner))
		rc = hold(l, p, p->target);
	if (rc == 0 && p->target.len)
		rc = fsm_put(&l->a, STORE_X_MOVE, key_place(at, p->topic, p->partition), p->target, PUT_QUIET);
	if (rc == 0)
		rc = count_row(l, p);
	if (rc)
		return rc;
	if (!l->is_there || p->partition >= l->now.count)
		return fsm_put(&l->a, STORE_X_ORPHAN, key_place(at, p->topic, p->partition), (struct str){ "", 0 },
		               PUT_QUIET);
	l->now.slots[p->partition] = (struct slot){ .owner = keep(l, p->owner),
		                                    .target = keep(l, p->target),
		                                    .version = l->o.index,
		                                    .move_id = p->target.len ? l->o.index : 0 };
	return 0;
}

static int load_assignment(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	struct assignment row;
	struct str topic;
	int64_t partition;
	int rc = read(l, &assignment_type, value, &row, out, e);
	if (rc)
		return rc;
	if (!row_key_parse(key, &topic, &partition) || !str_eq(topic, row.topic) || partition != row.partition)
		return refuse(e, "its key is not that of its topic and partition");
	if (!rule_stored_topic_name(topic) || partition > PARTITION_MAX)
		return refuse(e, "its topic or partition can not be held");
	out->names_dropped = is_dropped(l, row.owner_id) || is_dropped(l, row.target_id);
	row.owner_id = renamed(l, row.owner_id, out);
	row.target_id = renamed(l, row.target_id, out);
	if (!rule_member_id(row.owner_id) || (row.target_id.len && !rule_member_id(row.target_id)))
		return refuse(e, "its owner or target is not a member's id");
	if (!l->store)
		return 0;
	const struct place p = {
		.topic = topic, .partition = (uint32_t)partition, .owner = row.owner_id, .target = row.target_id
	};
	return fail(l, write_row(l, key, &row, &p), e);
}

/* ---- members ---- */

static int load_member(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	struct member_row row;
	struct member m;
	struct str there;
	int rc = read(l, &member_type, value, &m, out, e);
	if (rc)
		return rc;
	if (!str_eq(m.id, key))
		return refuse(e, "its id is not its key");
	out->entry_types = m.entry_types;
	out->dropped = is_dropped(l, m.id);
	if (out->dropped)
		return 0;
	m.id = renamed(l, m.id, out);
	if (!rule_member_id(m.id))
		return refuse(e, "not a member's id");
	if (!str_is(m.status, MEMBER_ALIVE) && !str_is(m.status, MEMBER_DEAD))
		return refuse(e, "its status is neither alive nor dead");
	m.status = STR_LIT(MEMBER_DEAD);
	if (!l->store)
		return 0;
	rc = store_get(l->a.txn, STORE_MEMBERS, m.id, &there);
	if (rc != ERR_NOTFOUND)
		return rc ? fail(l, rc, e) : refuse(e, "renamed to a member that is there already");
	l->has_members = true;
	rc = fsm_put_record(&l->a, STORE_MEMBERS, m.id, &member_type, &m, PUT_QUIET);
	if (rc == 0)
		rc = member_row_load(&l->a, m.id, &row);
	row.kind = FSM_KIND_BROKER;
	if (rc == 0)
		rc = member_row_store(&l->a, m.id, &row);
	return fail(l, rc, e);
}

static int load_removed(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	struct removed_member r;
	int rc = read(l, &removed_member_type, value, &r, out, e);
	const struct str id = renamed(l, key, out);
	if (rc)
		return rc;
	if (!rule_member_id(id))
		return refuse(e, "not a member's id");
	return l->store
	           ? fail(l, fsm_put_record(&l->a, STORE_REMOVED_MEMBERS, id, &removed_member_type, &r, PUT_QUIET), e)
	           : 0;
}

/* ---- users, remotes ---- */

static int load_user(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	struct user u;
	int rc = read(l, &user_type, value, &u, out, e);
	if (rc)
		return rc;
	if (!str_eq(u.username, key) || !rule_user_name(key))
		return refuse(e, "its name is not its key, or not a user's name");
	return l->store ? fail(l, fsm_put_record(&l->a, STORE_USERS, key, &user_type, &u, PUT_QUIET), e) : 0;
}

static int load_remote(struct fsm_load *l, struct str key, struct str value, struct fsm_loaded *out, struct err *e)
{
	const bool is_keys = str_is(key, REMOTE_KEYS_KEY);
	const struct record_type *t = is_keys ? &remote_keys_type : &remote_type;
	union {
		struct remote remote;
		struct remote_keys keys;
	} rec;
	int rc = read(l, t, value, &rec, out, e);
	if (rc)
		return rc;
	if (!is_keys && (!str_eq(rec.remote.name, key) || !rule_remote_name(key)))
		return refuse(e, "its name is not its key, or not a remote's name");
	return l->store ? fail(l, fsm_put_record(&l->a, STORE_REMOTES, key, t, &rec, PUT_QUIET), e) : 0;
}

/* ---- the whole ---- */

static int load_record(struct fsm_load *l, enum store_db db, struct str key, struct str value, struct fsm_loaded *out,
                       struct err *e)
{
	if (key.len == 0 || key.len > ROW_KEY_MAX)
		return refuse(e, "its key is longer than any that can be held");
	switch (db) {
	case STORE_TOPICS: return load_topic(l, key, value, out, e);
	case STORE_SCHEMAS: return load_schema(l, key, value, e);
	case STORE_ASSIGNMENTS: return load_assignment(l, key, value, out, e);
	case STORE_MEMBERS: return load_member(l, key, value, out, e);
	case STORE_USERS: return load_user(l, key, value, out, e);
	case STORE_REMOVED_MEMBERS: return load_removed(l, key, value, out, e);
	case STORE_REMOTES: return load_remote(l, key, value, out, e);
	default: return refuse(e, "not a bucket of records");
	}
}

int fsm_load_put(struct fsm_load *l, enum store_db db, struct str key, struct str value, struct fsm_loaded *out,
                 struct err *e)
{
	int rc = 0;
	*out = (struct fsm_loaded){ 0 };
	arena_reset(&l->arena);
	buf_clear(&l->work.notes); /* nobody watches */
	l->a.err.code = 0;
	if (l->store && db != l->db)
		rc = fail(l, end_topic(l), e);
	l->db = db;
	if (rc == 0)
		rc = load_record(l, db, key, value, out, e);
	const size_t bytes = key.len + value.len + (db == STORE_SCHEMAS ? SCHEMA_BYTES : 0);
	return rc || !l->store ? rc : commit_if_full(l, bytes, e);
}

/* Everything changed at once, as far as anybody who asks for changes is concerned. */
static int finish(struct fsm_load *l, uint32_t max_entry_type, struct err *e)
{
	int rc = fail(l, end_topic(l), e);
	if (rc == 0)
		rc = fail(l, write_counts(l), e);
	if (rc)
		return rc;
	for (int d = 0; d < FSM_DOMAIN_COUNT; d++)
		l->work.state.domain[d] = l->o.index;
	l->work.state.max_entry_type = max_entry_type;
	/* That its members are brokers is something only releases know that know this type. */
	if (l->has_members && max_entry_type < CMD_MEMBER_EXTRA)
		l->work.state.max_entry_type = CMD_MEMBER_EXTRA;
	rc = fail(l, fsm_save_conf(l->a.txn, l->o.index, l->o.conf.p, l->o.conf.len), e);
	return rc ? rc : commit(l, e);
}

int fsm_load_finish(struct fsm_load *l, uint32_t max_entry_type, struct err *e)
{
	int rc = l->store ? finish(l, max_entry_type, e) : 0;
	if (rc == 0) {
		struct store *s = l->store;
		l->store = NULL;
		rc = store_close(s, true, e);
	}
	fsm_load_abort(l);
	return rc;
}
