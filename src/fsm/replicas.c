/* Copies of partitions: types 80 to 84.
 *
 * A partition of a topic with `replicas` above 1 has a row in x_replicas: the epoch of its leader and who has a copy,
 * the leader first. The leader is the owner of Narad's row; a partition with copies and without a leader has no such
 * row, and is not unplaced: its copies hold data.
 *
 *   0 u8 version 1   1 u8 copies   2 u64 epoch   10 per copy: u8 in sync, u8 length + id, u8 length + id it replaces
 *
 * Every change names the epoch it is based on. A leader that was replaced meanwhile changes nothing. */
#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"
#include "model/rules.h"

#define HEADER 10
#define ROW_VERSION 1
#define ROW_MAX (HEADER + FSM_REPLICAS_MAX * (1 + 2 * 256))

static const struct str nothing = { "", 0 };

/* ---- the row ---- */

static bool take_name(struct str *rest, struct str *out)
{
	const size_t n = rest->len ? (uint8_t)rest->p[0] : 0;
	if (rest->len < 1 + n)
		return false;
	*out = (struct str){ rest->p + 1, n };
	*rest = (struct str){ rest->p + 1 + n, rest->len - 1 - n };
	return true;
}

static bool decode(struct str row, struct fsm_replicas *out)
{
	const uint8_t *b = (const uint8_t *)row.p;
	struct str rest;
	if (row.len < HEADER || b[0] != ROW_VERSION || b[1] == 0 || b[1] > FSM_REPLICAS_MAX)
		return false;
	*out = (struct fsm_replicas){ .epoch = get_le64(b + 2), .count = b[1] };
	rest = (struct str){ row.p + HEADER, row.len - HEADER };
	for (size_t i = 0; i < out->count; i++) {
		struct fsm_replica *r = &out->items[i];
		if (rest.len == 0 || (uint8_t)rest.p[0] > 1)
			return false;
		r->in_sync = rest.p[0] != 0;
		rest = (struct str){ rest.p + 1, rest.len - 1 };
		if (!take_name(&rest, &r->id) || r->id.len == 0 || !take_name(&rest, &r->replaces))
			return false;
	}
	return rest.len == 0;
}

static void put_name(struct buf *out, struct str name)
{
	assert(name.len <= UINT8_MAX);
	buf_putc(out, (char)name.len);
	buf_put(out, name.p, name.len);
}

static void encode(const struct fsm_replicas *r, struct buf *out)
{
	uint8_t head[HEADER] = { ROW_VERSION, (uint8_t)r->count };
	put_le64(head + 2, r->epoch);
	buf_put(out, head, sizeof(head));
	for (size_t i = 0; i < r->count; i++) {
		buf_putc(out, (char)r->items[i].in_sync);
		put_name(out, r->items[i].id);
		put_name(out, r->items[i].replaces);
	}
}

int fsm_get_replicas(struct store_txn *txn, struct str topic, uint32_t partition, struct fsm_replicas *out)
{
	uint8_t key[STORE_KEY_MAX];
	struct str row;
	int rc = store_get(txn, STORE_X_REPLICAS, key_place(key, topic, partition), &row);
	out->epoch = 0;
	out->count = 0;
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	return decode(row, out) ? 0 : ERR_CORRUPT;
}

const struct fsm_replica *fsm_replicas_find(const struct fsm_replicas *r, struct str id)
{
	for (size_t i = 0; i < r->count; i++)
		if (str_eq(r->items[i].id, id))
			return &r->items[i];
	return NULL;
}

bool replicas_equal(const struct fsm_replicas *x, const struct fsm_replicas *y)
{
	if (x->count != y->count || x->epoch != y->epoch)
		return false;
	for (size_t i = 0; i < x->count; i++) {
		const struct fsm_replica *p = &x->items[i], *q = &y->items[i];
		if (!str_eq(p->id, q->id) || p->in_sync != q->in_sync || !str_eq(p->replaces, q->replaces))
			return false;
	}
	return true;
}

int replicas_load(struct apply *a, struct str topic, uint32_t partition, struct fsm_replicas *out)
{
	uint8_t key[STORE_KEY_MAX];
	struct str row;
	const struct str at = key_place(key, topic, partition);
	int rc = fsm_get_copy(a, STORE_X_REPLICAS, at, &row);
	*out = (struct fsm_replicas){ 0 };
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	return decode(row, out) ? 0 : fsm_corrupt(a, STORE_X_REPLICAS, at, "not a row of this release");
}

int replicas_save(struct apply *a, const struct place *before, const struct place *now)
{
	uint8_t key[STORE_KEY_MAX];
	const struct str at = key_place(key, now->topic, now->partition);
	if (replicas_equal(&before->set, &now->set))
		return 0;
	if (now->set.count == 0)
		return fsm_del(a, STORE_X_REPLICAS, at);
	buf_clear(&a->value);
	encode(&now->set, &a->value);
	return fsm_put(a, STORE_X_REPLICAS, at, (struct str){ (const char *)a->value.data, a->value.len }, 0);
}

/* The first row of the topic, its partition. ERR_NOTFOUND: there is none. */
static int first_of(struct apply *a, struct str topic, uint32_t *partition)
{
	uint8_t key[STORE_KEY_MAX];
	struct store_cursor *c;
	struct str found, name;
	int rc = store_cursor_open(a->txn, STORE_X_REPLICAS, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, key_place(key, topic, 0), &found, NULL);
	if (rc == 0 && (!key_place_parse(found, &name, partition) || !str_eq(name, topic)))
		rc = ERR_NOTFOUND;
	store_cursor_close(c);
	return rc;
}

int replicas_clear_topic(struct apply *a, struct str topic)
{
	struct place place;
	uint32_t p;
	int rc;
	while ((rc = first_of(a, topic, &p)) == 0) {
		rc = place_load(a, topic, p, &place);
		if (rc == 0) {
			const struct place gone = { .topic = topic, .partition = p };
			rc = place_store(a, &place, &gone);
		}
		if (rc)
			return rc;
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* ---- changing a set ---- */

static struct fsm_replica *find(struct fsm_replicas *r, struct str id)
{
	return (struct fsm_replica *)fsm_replicas_find(r, id);
}

void replicas_drop(struct fsm_replicas *r, struct str id)
{
	size_t n = 0;
	for (size_t i = 0; i < r->count; i++)
		if (!str_eq(r->items[i].id, id))
			r->items[n++] = r->items[i];
	r->count = n;
	for (size_t i = 0; i < n; i++)
		if (str_eq(r->items[i].replaces, id))
			r->items[i].replaces = nothing;
}

static void put_first(struct fsm_replicas *r, struct str id)
{
	size_t at = 0;
	while (!str_eq(r->items[at].id, id))
		at++;
	const struct fsm_replica leader = r->items[at];
	memmove(&r->items[1], &r->items[0], at * sizeof(leader));
	r->items[0] = leader;
}

static size_t count_in_sync(const struct fsm_replicas *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->count; i++)
		n += r->items[i].in_sync;
	return n;
}

/* A member whose copy may go: the one made in its place is in sync, and it does not lead. "" = there is none. */
static struct str find_replaced(const struct place *p)
{
	for (size_t i = 0; i < p->set.count; i++) {
		const struct fsm_replica *r = &p->set.items[i];
		if (r->in_sync && r->replaces.len && !str_eq(r->replaces, p->owner))
			return r->replaces;
	}
	return nothing;
}

static void drop_replaced(struct place *p)
{
	for (struct str gone = find_replaced(p); gone.len; gone = find_replaced(p))
		replicas_drop(&p->set, gone);
}

/* ---- what every command on a set begins with ---- */

struct target {
	struct topic topic;
	struct place place;
};

static int load_set(struct apply *a, struct str name, struct str expect_id, int64_t partition, uint64_t epoch,
                    struct target *out)
{
	int rc = topic_record_load(a, name, expect_id, &out->topic);
	if (rc == 0 && (partition < 0 || partition >= out->topic.partitions))
		rc = FSM_PARTITION_RANGE;
	if (rc)
		return rc;
	rc = place_load(a, name, partition, &out->place);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_ASSIGNMENT_NOT_FOUND : rc;
	if (out->place.set.count == 0)
		return FSM_NOT_REPLICATED;
	return out->place.set.epoch == epoch ? 0 : FSM_STALE_EPOCH;
}

/* ---- 80 ---- */

/* What is there becomes the first copy; or the leader's copy becomes the only one. */
static int convert(struct apply *a, const struct topic_state *t, bool replicated)
{
	for (uint32_t p = 0; p < t->packed.count; p++) {
		struct place before, now;
		int rc = place_load(a, t->rec.name, p, &before);
		if (rc == ERR_NOTFOUND)
			continue;
		if (rc)
			return rc;
		now = before;
		now.set = (struct fsm_replicas){ 0 };
		if (replicated) {
			now.set.epoch = 1;
			now.set.count = 1;
			now.set.items[0] = (struct fsm_replica){ before.owner, true, nothing };
		}
		rc = place_store(a, &before, &now);
		if (rc)
			return rc;
	}
	return 0;
}

static int judge_conversion(const struct topic_state *t, bool replicated)
{
	for (uint32_t p = 0; p < t->packed.count; p++) {
		if (replicated && t->packed.slots[p].target.len)
			return FSM_MOVE_CHANGED;
		if (!replicated && t->packed.slots[p].leaderless)
			return FSM_NOT_IN_SYNC;
	}
	return 0;
}

int fsm_topic_replicas(struct apply *a, const void *command)
{
	const struct cmd_topic_replicas *c = command;
	struct topic_extra old, now;
	struct topic_state t;
	int rc = topic_extra_begin(a, c->topic, c->expect_id, &t, &old);
	if (rc)
		return rc;
	if (topic_is_stub(&t.rec))
		return FSM_STUB_IMMUTABLE;
	now = old;
	if (c->replicas.set)
		now.replicas = c->replicas.value;
	if (c->unclean.set)
		now.unclean = c->unclean.value;
	if (c->replica_lag.set)
		now.replica_lag = c->replica_lag.value;
	if (now.replicas < 1 || now.replicas > FSM_REPLICAS_MAX || now.replica_lag < 0)
		return FSM_INVALID;
	const bool was = old.replicas > 1, is = now.replicas > 1;
	if (was != is)
		rc = judge_conversion(&t, is);
	if (rc || is_judging(a))
		return rc;
	if (was != is) {
		rc = convert(a, &t, is);
		if (rc == 0)
			rc = topic_state_load(a, c->topic, &t);
	}
	return rc ? rc : topic_extra_end(a, &t, &now);
}

/* ---- 81 ---- */

static int judge_members(struct apply *a, const struct str_list *ids)
{
	if (ids->count == 0 || ids->count > FSM_REPLICAS_MAX)
		return FSM_INVALID;
	for (size_t i = 0; i < ids->count; i++) {
		int rc = judge_placeable_owner(a, ids->items[i]);
		for (size_t k = 0; k < i && rc == 0; k++)
			rc = str_eq(ids->items[i], ids->items[k]) ? FSM_INVALID : 0;
		if (rc)
			return rc;
	}
	return 0;
}

int fsm_replicas_place(struct apply *a, const void *command)
{
	const struct cmd_replicas_place *c = command;
	struct topic_extra extra;
	struct place row;
	struct topic t;
	int rc = topic_record_load(a, c->topic, c->expect_id, &t);
	if (rc == 0)
		rc = topic_extra_load(a, c->topic, &extra);
	if (rc)
		return rc;
	if (extra.replicas <= 1)
		return FSM_NOT_REPLICATED;
	if (c->partition < 0 || c->partition >= t.partitions)
		return FSM_PARTITION_RANGE;
	rc = judge_members(a, &c->replicas);
	if (rc == 0) {
		rc = place_load(a, c->topic, c->partition, &row);
		rc = rc == 0 ? FSM_PARTITION_ASSIGNED : rc == ERR_NOTFOUND ? 0 : rc;
	}
	if (rc || is_judging(a))
		return rc;
	const struct place before = { .topic = c->topic, .partition = (uint32_t)c->partition };
	struct place now = before;
	now.owner = c->replicas.items[0];
	now.set.epoch = 1;
	for (size_t i = 0; i < c->replicas.count; i++)
		now.set.items[now.set.count++] = (struct fsm_replica){ c->replicas.items[i], true, nothing };
	return place_store(a, &before, &now);
}

/* ---- 82 ---- */

/* The old leader stays: its copy is whole up to what was acknowledged, and it may lead again once it followed. */
static void elect(struct place *now, struct str leader, bool unclean)
{
	const struct str old = now->owner;
	struct fsm_replica *r = find(&now->set, leader);
	assert(r); /* judged before */
	const bool was_in_sync = r->in_sync;
	for (size_t i = 0; i < now->set.count; i++)
		if ((unclean && !was_in_sync) || str_eq(now->set.items[i].id, old))
			now->set.items[i].in_sync = false;
	r->in_sync = true;
	now->owner = r->id;
	now->set.epoch++;
	put_first(&now->set, leader);
	drop_replaced(now);
}

int fsm_leader_change(struct apply *a, const void *command)
{
	const struct cmd_leader_change *c = command;
	struct target t;
	int rc = load_set(a, c->topic, c->expect_id, c->partition, c->expect_epoch, &t);
	if (rc)
		return rc;
	const struct fsm_replica *r = fsm_replicas_find(&t.place.set, c->leader);
	if (c->leader.len && str_eq(c->leader, t.place.owner))
		return FSM_PARTITION_ASSIGNED;
	if (c->leader.len && (!r || (!r->in_sync && !c->unclean)))
		return FSM_NOT_IN_SYNC;
	if (is_judging(a) || (c->leader.len == 0 && t.place.owner.len == 0))
		return 0;
	struct place now = t.place;
	if (c->leader.len)
		elect(&now, c->leader, c->unclean);
	else
		now.owner = nothing; /* those in sync stay so: whoever of them comes back first may lead */
	return place_store(a, &t.place, &now);
}

/* ---- 83 ---- */

int fsm_in_sync_change(struct apply *a, const void *command)
{
	const struct cmd_in_sync_change *c = command;
	struct target t;
	int rc = load_set(a, c->topic, c->expect_id, c->partition, c->epoch, &t);
	if (rc)
		return rc;
	if (t.place.owner.len == 0)
		return FSM_STALE_EPOCH; /* the reporter was the leader of this epoch, and is not any more */
	if (str_eq(c->replica, t.place.owner))
		return c->in_sync ? 0 : FSM_LAST_IN_SYNC;
	struct place now = t.place;
	struct fsm_replica *r = find(&now.set, c->replica);
	if (!r) {
		rc = judge_placeable_owner(a, c->replica);
		if (rc == 0 && now.set.count == FSM_REPLICAS_MAX)
			rc = FSM_INVALID;
		if (rc)
			return rc;
		r = &now.set.items[now.set.count++];
		*r = (struct fsm_replica){ c->replica, !c->in_sync, nothing };
	}
	if (is_judging(a) || r->in_sync == c->in_sync)
		return 0;
	r->in_sync = c->in_sync;
	drop_replaced(&now);
	return place_store(a, &t.place, &now);
}

/* ---- 84 ---- */

static int judge_removal(const struct place *p, struct str id, bool at_once)
{
	const struct fsm_replica *r = fsm_replicas_find(&p->set, id);
	if (!r)
		return FSM_NOT_IN_SYNC;
	/* One that is to be replaced stays until the other is in sync, and while it leads. */
	if (!at_once)
		return 0;
	if (str_eq(id, p->owner) || (r->in_sync && count_in_sync(&p->set) == 1))
		return FSM_LAST_IN_SYNC;
	return 0;
}

int fsm_replicas_change(struct apply *a, const void *command)
{
	const struct cmd_replicas_change *c = command;
	struct target t;
	int rc = load_set(a, c->topic, c->expect_id, c->partition, c->expect_epoch, &t);
	if (rc)
		return rc;
	if (c->add.len == 0 && c->remove.len == 0)
		return FSM_INVALID;
	if (c->add.len) {
		rc = judge_placeable_owner(a, c->add);
		if (rc == 0 && fsm_replicas_find(&t.place.set, c->add))
			rc = FSM_PARTITION_ASSIGNED;
		if (rc == 0 && t.place.set.count == FSM_REPLICAS_MAX)
			rc = FSM_INVALID;
	}
	if (rc == 0 && c->remove.len)
		rc = judge_removal(&t.place, c->remove, c->add.len == 0);
	if (rc || is_judging(a))
		return rc;
	struct place now = t.place;
	if (c->add.len)
		now.set.items[now.set.count++] = (struct fsm_replica){ c->add, false, c->remove };
	else
		replicas_drop(&now.set, c->remove);
	return place_store(a, &t.place, &now);
}
