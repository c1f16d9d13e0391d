#include "fsm/members.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"

/* ---- single rows ---- */

const char *fsm_member_kind_name(enum fsm_member_kind k)
{
	return k == FSM_KIND_BROKER ? MEMBER_KIND_BROKER : MEMBER_KIND_SERVER;
}

int fsm_get_member_record(struct store_txn *txn, struct str id, struct str *record)
{
	return store_get(txn, STORE_MEMBERS, id, record);
}

int fsm_get_member_extra(struct store_txn *txn, struct str id, struct fsm_member_extra *out)
{
	struct member_row row = member_row_default;
	struct str v;
	int rc = store_get(txn, STORE_X_MEMBER, id, &v);
	if (rc == 0 && !member_row_decode(v, &row))
		return ERR_CORRUPT;
	if (rc && rc != ERR_NOTFOUND)
		return rc;
	*out = (struct fsm_member_extra){
		.kind = row.kind,
		.placeable = row.offers && !row.cordoned,
		.offers = row.offers,
		.cordoned = row.cordoned,
		.tags = row.tags.len ? row.tags : STR_LIT("{}"),
		.labels = row.labels.len ? row.labels : STR_LIT("{}"),
		.session = row.session,
		.store_id = row.store_id,
		.counts = row.counts,
	};
	return 0;
}

void fsm_write_member_extra(struct json_writer *w, const struct fsm_member_extra *x)
{
	json_field_cstr(w, "kind", fsm_member_kind_name(x->kind));
	json_field_bool(w, "placeable", x->placeable);
	json_key(w, "tags");
	json_put_raw(w, x->tags);
	json_key(w, "labels");
	json_put_raw(w, x->labels);
	if (x->store_id.len > 0)
		json_field_str(w, "store_id", x->store_id);
}

int fsm_get_tombstone(struct store_txn *txn, struct str id, int64_t *removed_at_s)
{
	struct removed_member r;
	struct str v;
	int rc = store_get(txn, STORE_REMOVED_MEMBERS, id, &v);
	if (rc || !removed_at_s)
		return rc;
	struct arena a = { 0 };
	rc = record_read_json(&removed_member_type, v, &a, &r, NULL, NULL) ? ERR_CORRUPT : 0;
	arena_fini(&a);
	if (rc == 0)
		*removed_at_s = r.removed_at;
	return rc;
}

int fsm_member_iter_open(struct fsm_member_iter *it, struct store_txn *txn, struct str after)
{
	*it = (struct fsm_member_iter){ .txn = txn, .after = after };
	return store_cursor_open(txn, STORE_MEMBERS, &it->cursor);
}

int fsm_member_iter_next(struct fsm_member_iter *it, struct str *id, struct str *record)
{
	int rc;
	if (it->started)
		return store_cursor_next(it->cursor, id, record);
	it->started = true;
	rc = store_cursor_seek(it->cursor, it->after, id, record);
	if (rc == 0 && it->after.len && str_eq(*id, it->after))
		rc = store_cursor_next(it->cursor, id, record);
	return rc;
}

void fsm_member_iter_close(struct fsm_member_iter *it)
{
	store_cursor_close(it->cursor);
	it->cursor = NULL;
}

/* ---- the table ---- */

struct members_table {
	struct fsm_members shown;
	_Atomic uint32_t refs;
	struct arena arena; /* rows and their strings */
};

static struct members_table *table_of(const struct fsm_members *m)
{
	return (struct members_table *)(uintptr_t)m; /* `shown` is the first member */
}

const struct fsm_members *members_ref(const struct fsm_members *m)
{
	atomic_fetch_add(&table_of(m)->refs, 1);
	return m;
}

void fsm_members_unref(const struct fsm_members *m)
{
	if (!m)
		return;
	struct members_table *t = table_of(m);
	if (atomic_fetch_sub(&t->refs, 1) > 1)
		return;
	arena_fini(&t->arena);
	mem_free(t);
}

const struct fsm_member *fsm_members_find(const struct fsm_members *m, struct str id)
{
	size_t lo = 0, hi = m->count;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		const int c = str_cmp(m->rows[mid].id, id);
		if (c == 0)
			return &m->rows[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

int fsm_receiver_refusal(bool alive, bool draining, bool placeable)
{
	if (!alive)
		return FSM_TARGET_NOT_ALIVE;
	if (draining)
		return FSM_TARGET_DRAINING;
	return placeable ? 0 : FSM_TARGET_NOT_PLACEABLE;
}

int fsm_members_receiver(const struct fsm_members *m, struct str id)
{
	const struct fsm_member *found = fsm_members_find(m, id);
	return found ? fsm_receiver_refusal(found->alive, found->draining, found->placeable) : FSM_MEMBER_NOT_FOUND;
}

static int read_row(struct store_txn *txn, struct str id, struct str record, struct arena *a, struct fsm_member *out)
{
	struct fsm_member_extra extra;
	struct member m;
	const struct str copy = arena_str(a, record);
	if (record_read_json(&member_type, copy, a, &m, NULL, NULL) || !str_eq(m.id, id))
		return ERR_CORRUPT;
	int rc = fsm_get_member_extra(txn, id, &extra);
	if (rc)
		return rc;
	*out = (struct fsm_member){
		.id = m.id,
		.addr = m.addr,
		.cluster_addr = m.cluster_addr,
		.build = m.build,
		.entry_types = m.entry_types,
		.kind = extra.kind,
		.alive = str_is(m.status, MEMBER_ALIVE),
		.draining = m.draining,
		.placeable = extra.placeable,
		.offers = extra.offers,
		.tags = { arena_dup(a, extra.tags.p, extra.tags.len), extra.tags.len },
		.labels = { arena_dup(a, extra.labels.p, extra.labels.len), extra.labels.len },
	};
	return 0;
}

static int read_rows(struct store_txn *txn, struct members_table *t)
{
	struct fsm_member_iter it;
	struct str id, record;
	uint64_t count;
	size_t n = 0;
	int rc = store_count(txn, STORE_MEMBERS, &count);
	if (rc)
		return rc;
	struct fsm_member *rows = arena_alloc(&t->arena, (count + 1) * sizeof(*rows));
	rc = fsm_member_iter_open(&it, txn, (struct str){ "", 0 });
	while (rc == 0 && (rc = fsm_member_iter_next(&it, &id, &record)) == 0) {
		assert(n < count);
		rc = read_row(txn, id, record, &t->arena, &rows[n++]);
	}
	fsm_member_iter_close(&it);
	t->shown.rows = rows;
	t->shown.count = n;
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int fsm_members_load(struct store_txn *txn, const struct fsm_members **out)
{
	struct members_table *t = mem_zalloc(sizeof(*t));
	atomic_init(&t->refs, 1);
	int rc = fsm_get_domain_version(txn, FSM_DOMAIN_MEMBERS, &t->shown.version);
	if (rc == 0)
		rc = read_rows(txn, t);
	if (rc) {
		fsm_members_unref(&t->shown);
		return rc;
	}
	*out = &t->shown;
	return 0;
}

/* ---- one table for all readers ----
 *
 * Two are kept: a reader whose transaction is a commit behind must not make the others build theirs again. */

static const struct fsm_members *cached(struct fsm *f, uint64_t generation, raft_index version)
{
	const struct fsm_members *found = NULL;
	pthread_mutex_lock(&f->members_lock);
	for (int i = 0; i < 2 && !found; i++) {
		const struct fsm_members *m = f->members[i];
		if (m && m->version == version && f->members_generation[i] == generation)
			found = members_ref(m);
	}
	pthread_mutex_unlock(&f->members_lock);
	return found;
}

static void keep(struct fsm *f, uint64_t generation, const struct fsm_members *m)
{
	pthread_mutex_lock(&f->members_lock);
	int slot = f->members[0] ? 1 : 0;
	if (f->members[0] && f->members[1])
		slot = f->members[0]->version < f->members[1]->version ? 0 : 1;
	const struct fsm_members *old = f->members[slot];
	f->members[slot] = members_ref(m);
	f->members_generation[slot] = generation;
	pthread_mutex_unlock(&f->members_lock);
	fsm_members_unref(old);
}

void members_cache_clear(struct fsm *f)
{
	pthread_mutex_lock(&f->members_lock);
	for (int i = 0; i < 2; i++) {
		fsm_members_unref(f->members[i]);
		f->members[i] = NULL;
	}
	pthread_mutex_unlock(&f->members_lock);
}

int fsm_reader_members(struct fsm_reader *r, const struct fsm_members **out, struct err *e)
{
	raft_index version;
	if (r->members && r->members_index == r->index) {
		*out = r->members;
		return 0;
	}
	int rc = fsm_get_domain_version(r->txn, FSM_DOMAIN_MEMBERS, &version);
	if (rc)
		return fsm_txn_err(r->txn, rc, e);
	if (!r->members || r->members->version != version) {
		const struct fsm_members *m = cached(r->fsm, r->generation, version);
		if (!m) {
			rc = fsm_members_load(r->txn, &m);
			if (rc)
				return err_set(e, rc, "cannot read the members: %s", err_text(rc));
			keep(r->fsm, r->generation, m);
		}
		fsm_members_unref(r->members);
		r->members = m;
	}
	r->members_index = r->index;
	*out = r->members;
	return 0;
}
