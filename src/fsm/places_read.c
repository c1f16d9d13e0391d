#include "fsm/assignments.h"

#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

int fsm_get_assignment_record(struct store_txn *txn, struct str topic, uint32_t partition, struct str *record)
{
	char key[ROW_KEY_MAX];
	const struct str at = { key, row_key(key, topic, partition) };
	return at.len ? store_get(txn, STORE_ASSIGNMENTS, at, record) : ERR_NOTFOUND;
}

const char *fsm_assignment_state(const struct fsm_owner *o, bool owner_alive)
{
	if (o->owner.len == 0)
		return o->leaderless ? "leaderless" : "unplaced";
	if (!owner_alive)
		return "owner_dead";
	return o->target.len > 0 ? "moving" : "placed";
}

static void write_copies(struct json_writer *w, const struct fsm_replicas *set)
{
	json_field_u64(w, "leader_epoch", set->epoch);
	json_key(w, "replicas");
	json_begin_array(w);
	for (size_t i = 0; i < set->count; i++) {
		const struct fsm_replica *r = &set->items[i];
		json_begin_object(w);
		json_field_str(w, "id", r->id);
		json_field_bool(w, "in_sync", r->in_sync);
		if (r->replaces.len > 0)
			json_field_str(w, "replaces", r->replaces);
		json_end_object(w);
	}
	json_end_array(w);
}

void fsm_write_assignment(struct json_writer *w, struct str topic, struct str id, uint32_t p, const struct fsm_owner *o,
                          const char *state, const struct fsm_replicas *set)
{
	json_begin_object(w);
	json_field_str(w, "topic", topic);
	json_field_str(w, "topic_id", id);
	json_field_u64(w, "partition", p);
	json_field_cstr(w, "state", state);
	json_field_str(w, "owner_id", o->owner);
	if (o->target.len > 0) {
		json_field_str(w, "target_id", o->target);
		json_field_u64(w, "move_id", o->move_id);
	}
	if (o->pinned)
		json_field_bool(w, "pinned", true);
	json_field_u64(w, "version", o->version);
	if (set->count > 0)
		write_copies(w, set);
	json_end_object(w);
}

/* Begins a walk over keys "<prefix><topic>\0<partition>", behind `after`. Nothing names a member or topic too long. */
static int open_walk(struct fsm_place_iter *it, struct store_txn *txn, enum store_db db, struct str member,
                     const struct fsm_place *after)
{
	size_t at = 0;
	it->cursor = NULL;
	it->started = false;
	it->prefix_len = it->key_len = 0;
	if (member.len + (after ? after->topic.len : 0) + 4 > STORE_KEY_MAX)
		return 0;
	if (member.len) {
		memcpy(it->key, member.p, member.len);
		it->key[member.len] = '\0';
		at = member.len + 1;
	}
	it->prefix_len = (uint16_t)at;
	if (after) {
		assert(after->partition <= PARTITION_MAX);
		at += key_place(it->key + at, after->topic, after->partition).len;
		it->key[at++] = 0; /* the least key behind that one */
	}
	it->key_len = (uint16_t)at;
	return store_cursor_open(txn, db, &it->cursor);
}

int fsm_held_open(struct fsm_place_iter *it, struct store_txn *txn, struct str member, const struct fsm_place *after)
{
	if (member.len == 0) {
		*it = (struct fsm_place_iter){ 0 };
		return 0;
	}
	return open_walk(it, txn, STORE_X_BY_MEMBER, member, after);
}

int fsm_moves_open(struct fsm_place_iter *it, struct store_txn *txn, const struct fsm_place *after)
{
	return open_walk(it, txn, STORE_X_MOVE, (struct str){ "", 0 }, after);
}

int fsm_orphans_open(struct fsm_place_iter *it, struct store_txn *txn, const struct fsm_place *after)
{
	return open_walk(it, txn, STORE_X_ORPHAN, (struct str){ "", 0 }, after);
}

int fsm_leaderless_open(struct fsm_place_iter *it, struct store_txn *txn)
{
	return open_walk(it, txn, STORE_X_LEADERLESS, (struct str){ "", 0 }, NULL);
}

int fsm_place_next(struct fsm_place_iter *it, struct fsm_place *out)
{
	struct str key, value;
	int rc;
	if (!it->cursor)
		return ERR_NOTFOUND;
	if (it->started)
		rc = store_cursor_next(it->cursor, &key, &value);
	else
		rc = store_cursor_seek(it->cursor, (struct str){ (const char *)it->key, it->key_len }, &key, &value);
	it->started = true;
	const struct str prefix = { (const char *)it->key, it->prefix_len };
	if (rc == 0 && !str_starts(key, prefix))
		rc = ERR_NOTFOUND;
	if (rc)
		return rc;
	const struct str rest = { key.p + prefix.len, key.len - prefix.len };
	if (!key_place_parse(rest, &out->topic, &out->partition))
		return ERR_CORRUPT;
	/* By member the value is the roles; of a move it is the target's name, of an orphan nothing. */
	if (prefix.len)
		out->roles = value.len == 1 ? (uint8_t)value.p[0] : 0;
	else
		out->roles = value.len ? FSM_ROLE_TARGET : 0;
	return 0;
}

void fsm_place_close(struct fsm_place_iter *it)
{
	store_cursor_close(it->cursor);
	it->cursor = NULL;
}

int fsm_count_moves(struct store_txn *txn, uint64_t *out)
{
	return store_count(txn, STORE_X_MOVE, out);
}

int fsm_count_assignments(struct store_txn *txn, uint64_t *out)
{
	return store_count(txn, STORE_ASSIGNMENTS, out);
}

int fsm_count_orphans(struct store_txn *txn, uint64_t *out)
{
	return store_count(txn, STORE_X_ORPHAN, out);
}
