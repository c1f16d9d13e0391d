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
	changes_encode(&a->work->notes, a->index, domain, op, key);
	fsm_touch(a, domain);
}

/* Rows of a topic are "orders:3" in the store and "orders/3" to watchers. */
void fsm_note_record(struct apply *a, enum store_db db, struct str key, enum fsm_op op)
{
	char shown[STORE_KEY_MAX];
	assert(key.len <= sizeof(shown));
	if (db > STORE_REMOTES || (db == STORE_REMOTES && str_is(key, REMOTE_KEYS_KEY)))
		return;
	if (db == STORE_ASSIGNMENTS || db == STORE_SCHEMAS) {
		memcpy(shown, key.p, key.len);
		char *colon = memrchr(shown, ':', key.len);
		assert(colon);
		*colon = '/';
		key.p = shown;
	}
	fsm_note(a, (enum fsm_domain)domain_of[db], key, op);
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
		fsm_note_record(a, db, key, FSM_OP_PUT);
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
	fsm_note_record(a, db, key, FSM_OP_DELETE);
	return store_del(a->txn, db, key);
}

int fsm_get_copy(struct apply *a, enum store_db db, struct str key, struct str *value)
{
	struct str v;
	int rc = store_get(a->txn, db, key, &v);
	if (rc == 0)
		*value = (struct str){ arena_dup(a->arena, v.p, v.len), v.len };
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
