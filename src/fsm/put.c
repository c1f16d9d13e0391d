/* The one way to write. Every put and delete keeps the digest of its database and notes the change under the name that
 * watchers know; what is derived (the x_ databases) has no name of its own there. */
#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

static const uint8_t domain_of[STORE_DB_COUNT] = {
	[STORE_TOPICS] = FSM_DOMAIN_TOPICS,
	[STORE_SCHEMAS] = FSM_DOMAIN_SCHEMAS,
	[STORE_ASSIGNMENTS] = FSM_DOMAIN_ASSIGNMENTS,
	[STORE_MEMBERS] = FSM_DOMAIN_MEMBERS,
	[STORE_USERS] = FSM_DOMAIN_USERS,
	[STORE_REMOVED_MEMBERS] = FSM_DOMAIN_TOMBSTONES,
	[STORE_REMOTES] = FSM_DOMAIN_REMOTES,
};

void fsm_apply_fini(struct apply *a)
{
	buf_fini(&a->value);
	buf_fini(&a->key);
}

void fsm_touch(struct apply *a, enum fsm_domain domain)
{
	a->work->state.domain[domain] = a->index;
}

void fsm_note(struct apply *a, enum fsm_domain domain, struct str key, enum fsm_op op)
{
	const struct str nothing = { "", 0 };
	changes_encode(&a->work->notes, &(struct change_note){ a->index, domain, op, key, nothing, nothing });
	fsm_touch(a, domain);
}

static bool is_told(enum store_db db, struct str key)
{
	return db <= STORE_REMOTES && !(db == STORE_REMOTES && str_is(key, REMOTE_KEYS_KEY));
}

/* Rows of a topic are "orders:3" in the store and "orders/3" to watchers. */
static struct str shown_key(enum store_db db, struct str key, char shown[STORE_KEY_MAX])
{
	if (db != STORE_ASSIGNMENTS && db != STORE_SCHEMAS)
		return key;
	assert(key.len <= STORE_KEY_MAX);
	memcpy(shown, key.p, key.len);
	char *colon = memrchr(shown, ':', key.len);
	assert(colon);
	*colon = '/';
	return (struct str){ shown, key.len };
}

static void note_put(struct apply *a, enum store_db db, struct str key)
{
	char shown[STORE_KEY_MAX];
	if (is_told(db, key))
		fsm_note(a, (enum fsm_domain)domain_of[db], shown_key(db, key, shown), FSM_OP_PUT);
}

/* Before it goes, with what it last was. A topic's other half has gone by now, and partitions are noted where their
 * lists change: those records come with notes of their own. */
static int note_delete(struct apply *a, enum store_db db, struct str key)
{
	char shown[STORE_KEY_MAX];
	struct buf record = { 0 };
	int rc = 0;
	if (!is_told(db, key))
		return 0;
	const enum fsm_domain domain = (enum fsm_domain)domain_of[db];
	const struct str name = shown_key(db, key, shown);
	if (db != STORE_TOPICS && db != STORE_ASSIGNMENTS)
		rc = notes_render(a->txn, a->arena, domain, name, &record);
	if (rc == 0 || rc == ERR_NOTFOUND) {
		notes_gone(a, domain, name, (struct str){ (const char *)record.data, record.len },
		           (struct str){ "", 0 });
		fsm_touch(a, domain);
		rc = 0;
	}
	buf_fini(&record);
	return rc;
}

static int subtract_old(struct apply *a, enum store_db db, struct str key, bool *there)
{
	struct str old;
	int rc = store_get(a->txn, db, key, &old);
	*there = rc == 0;
	if (rc == 0)
		a->work->state.digest[db] -= digest_of(key, old, &a->key);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int fsm_put(struct apply *a, enum store_db db, struct str key, struct str value, unsigned flags)
{
	bool there;
	assert(!is_judging(a) && db != STORE_FSM_META && db != STORE_X_META);
	int rc = subtract_old(a, db, key, &there);
	if (rc)
		return rc;
	a->work->state.digest[db] += digest_of(key, value, &a->key);
	if (!(flags & PUT_QUIET))
		note_put(a, db, key);
	return store_put(a->txn, db, key, value);
}

int fsm_put_record(struct apply *a, enum store_db db, struct str key, const struct record_type *t, const void *rec,
                   unsigned flags)
{
	buf_clear(&a->value);
	record_put_json(t, rec, &a->value);
	return fsm_put(a, db, key, (struct str){ (const char *)a->value.data, a->value.len }, flags);
}

int fsm_del(struct apply *a, enum store_db db, struct str key)
{
	bool there;
	assert(!is_judging(a));
	int rc = subtract_old(a, db, key, &there);
	if (rc || !there)
		return rc;
	rc = note_delete(a, db, key);
	return rc ? rc : store_del(a->txn, db, key);
}

int fsm_get_copy(struct apply *a, enum store_db db, struct str key, struct str *value)
{
	struct str v;
	int rc = store_get(a->txn, db, key, &v);
	if (rc == 0)
		*value = arena_str(a->arena, v);
	return rc;
}

void fsm_set_hint(struct apply *a, struct str name)
{
	const size_t n = name.len < sizeof(a->hint->name) ? name.len : sizeof(a->hint->name) - 1;
	memcpy(a->hint->name, name.p, n);
	a->hint->name[n] = '\0';
}

int fsm_corrupt(struct apply *a, enum store_db db, struct str key, const char *what)
{
	return err_set(&a->err, ERR_CORRUPT, "%s \"" STR_FMT "\": %s", store_db_name(db), STR_ARG(key), what);
}

int fsm_get_record(struct apply *a, enum store_db db, struct str key, const struct record_type *t, void *out)
{
	struct err why;
	struct str v;
	int rc = fsm_get_copy(a, db, key, &v);
	if (rc)
		return rc;
	rc = record_read_json(t, v, a->arena, out, NULL, &why);
	return rc ? fsm_corrupt(a, db, key, why.msg) : 0;
}

/* ---- keys ---- */

static uint8_t *append(uint8_t *at, struct str s)
{
	if (s.len)
		memcpy(at, s.p, s.len);
	return at + s.len;
}

static struct str finish(const uint8_t *out, const uint8_t *end)
{
	return (struct str){ (const char *)out, (size_t)(end - out) };
}

struct str key_pair(uint8_t *out, struct str first, struct str second)
{
	assert(first.len + 1 + second.len <= STORE_KEY_MAX);
	uint8_t *at = append(out, first);
	*at++ = '\0';
	return finish(out, append(at, second));
}

struct str key_place(uint8_t *out, struct str topic, uint32_t partition)
{
	assert(topic.len + 3 <= STORE_KEY_MAX && partition <= PARTITION_MAX);
	uint8_t *at = append(out, topic);
	*at++ = '\0';
	put_be16(at, (uint16_t)partition);
	return finish(out, at + 2);
}

struct str key_held(uint8_t *out, struct str member, struct str topic, uint32_t partition)
{
	assert(member.len + 1 + topic.len + 3 <= STORE_KEY_MAX);
	uint8_t *at = append(out, member);
	*at++ = '\0';
	const struct str rest = key_place(at, topic, partition);
	return finish(out, at + rest.len);
}

struct str key_fold(uint8_t *out, struct str name)
{
	assert(2 * name.len + 1 <= STORE_KEY_MAX);
	uint8_t *at = out;
	for (size_t i = 0; i < name.len; i++) {
		const char c = name.p[i];
		*at++ = (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	}
	*at++ = '\0';
	return finish(out, append(at, name));
}

bool key_place_parse(struct str key, struct str *topic, uint32_t *partition)
{
	if (key.len < 3 || key.p[key.len - 3] != '\0')
		return false;
	*topic = (struct str){ key.p, key.len - 3 };
	*partition = get_be16(key.p + key.len - 2);
	return true;
}
