/* One row of `assignments`, and everything that is derived from rows: packed owners, partitions by member, counts,
 * moves, orphans. A row changes only here. */
#include <assert.h>
#include <string.h>

#include "fsm/fsm_internal.h"

/* ---- x_member ----
 *
 *   0 u8 version 3   1 u8 kind   2 u8 offers   3 u8 cordoned   4 u32 owned   8 u32 coming   12 u32 leaving
 *   16 u32 leads   20 u32 follows   24 u32 bytes of tags   28 u32 bytes of labels   32 u8 bytes of session
 *   33 u8 bytes of store id   34 tags and labels (JSON), session, store id
 *
 * A row that says nothing but the defaults is not kept. */

#define MEMBER_ROW_HEADER 34
#define MEMBER_ROW_VERSION 3

const struct member_row member_row_default = {
	.kind = FSM_KIND_SERVER,
	.offers = true,
	.tags = { "", 0 },
	.labels = { "", 0 },
	.session = { "", 0 },
	.store_id = { "", 0 },
};

bool member_row_is_default(const struct member_row *row)
{
	const struct member_row *d = &member_row_default;
	return row->kind == d->kind && row->offers == d->offers && row->cordoned == d->cordoned && !row->tags.len &&
	       !row->labels.len && !row->session.len && !row->store_id.len && !row->counts.owned &&
	       !row->counts.coming && !row->counts.leaving && !row->counts.leads && !row->counts.follows;
}

static struct str cut(const char **at, size_t len)
{
	const struct str s = { *at, len };
	*at += len;
	return s;
}

bool member_row_decode(struct str bytes, struct member_row *out)
{
	const uint8_t *b = (const uint8_t *)bytes.p;
	if (bytes.len < MEMBER_ROW_HEADER || b[0] != MEMBER_ROW_VERSION || b[1] > FSM_KIND_BROKER || b[2] > 1 ||
	    b[3] > 1)
		return false;
	const uint64_t tags = get_le32(b + 24), labels = get_le32(b + 28), session = b[32], store = b[33];
	const char *at = bytes.p + MEMBER_ROW_HEADER;
	if (bytes.len != MEMBER_ROW_HEADER + tags + labels + session + store)
		return false;
	*out = (struct member_row){
		.kind = (enum fsm_member_kind)b[1],
		.offers = b[2] != 0,
		.cordoned = b[3] != 0,
		.counts = { get_le32(b + 4), get_le32(b + 8), get_le32(b + 12), get_le32(b + 16), get_le32(b + 20) },
	};
	out->tags = cut(&at, tags);
	out->labels = cut(&at, labels);
	out->session = cut(&at, session);
	out->store_id = cut(&at, store);
	return true;
}

int member_row_load(struct apply *a, struct str id, struct member_row *out)
{
	struct str v;
	int rc = fsm_get_copy(a, STORE_X_MEMBER, id, &v);
	if (rc == ERR_NOTFOUND) {
		*out = member_row_default;
		return 0;
	}
	if (rc)
		return rc;
	return member_row_decode(v, out) ? 0 : fsm_corrupt(a, STORE_X_MEMBER, id, "not a row of this release");
}

int member_row_store(struct apply *a, struct str id, const struct member_row *row)
{
	const struct fsm_member_counts *n = &row->counts;
	uint8_t b[MEMBER_ROW_HEADER] = { MEMBER_ROW_VERSION, (uint8_t)row->kind, row->offers, row->cordoned };
	if (member_row_is_default(row))
		return fsm_del(a, STORE_X_MEMBER, id);
	assert(row->session.len <= UINT8_MAX && row->store_id.len <= UINT8_MAX);
	put_le32(b + 4, n->owned);
	put_le32(b + 8, n->coming);
	put_le32(b + 12, n->leaving);
	put_le32(b + 16, n->leads);
	put_le32(b + 20, n->follows);
	put_le32(b + 24, (uint32_t)row->tags.len);
	put_le32(b + 28, (uint32_t)row->labels.len);
	b[32] = (uint8_t)row->session.len;
	b[33] = (uint8_t)row->store_id.len;
	buf_clear(&a->value);
	buf_put(&a->value, b, sizeof(b));
	buf_put(&a->value, row->tags.p, row->tags.len);
	buf_put(&a->value, row->labels.p, row->labels.len);
	buf_put(&a->value, row->session.p, row->session.len);
	buf_put(&a->value, row->store_id.p, row->store_id.len);
	return fsm_put(a, STORE_X_MEMBER, id, (struct str){ (const char *)a->value.data, a->value.len }, 0);
}

/* ---- who holds what ---- */

uint8_t place_roles(const struct place *p, struct str member)
{
	return (uint8_t)((str_eq(p->owner, member) ? FSM_ROLE_OWNER : 0) |
	                 (str_eq(p->target, member) ? FSM_ROLE_TARGET : 0) |
	                 (fsm_replicas_find(&p->set, member) ? FSM_ROLE_REPLICA : 0));
}

static void count_in(struct fsm_member_counts *n, const struct place *p, struct str member, uint32_t by)
{
	if (str_eq(p->owner, member)) {
		n->owned += by;
		n->leaving += p->target.len ? by : 0;
		n->leads += p->set.count ? by : 0;
	} else {
		n->follows += fsm_replicas_find(&p->set, member) ? by : 0;
	}
	if (str_eq(p->target, member))
		n->coming += by;
}

/* Index and counts of one member that the row named before, names now, or both. */
static int update_member(struct apply *a, struct str member, const struct place *before, const struct place *now)
{
	uint8_t key[STORE_KEY_MAX];
	const struct str held = key_held(key, member, now->topic, now->partition);
	const uint8_t was = place_roles(before, member), is = place_roles(now, member);
	struct member_row row;
	int rc = 0;
	if (is == 0)
		rc = fsm_del(a, STORE_X_BY_MEMBER, held);
	else if (is != was)
		rc = fsm_put(a, STORE_X_BY_MEMBER, held, (struct str){ (const char *)&is, 1 }, 0);
	if (rc == 0)
		rc = member_row_load(a, member, &row);
	if (rc)
		return rc;
	const struct fsm_member_counts old = row.counts;
	count_in(&row.counts, before, member, (uint32_t)-1);
	count_in(&row.counts, now, member, 1);
	return memcmp(&old, &row.counts, sizeof(old)) == 0 ? 0 : member_row_store(a, member, &row);
}

/* Everybody that a place names, each once. */
static size_t named(const struct place *before, const struct place *now, struct str out[4 + 2 * FSM_REPLICAS_MAX])
{
	struct str all[4 + 2 * FSM_REPLICAS_MAX] = { before->owner, before->target, now->owner, now->target };
	size_t n = 4, count = 0;
	for (size_t i = 0; i < before->set.count; i++)
		all[n++] = before->set.items[i].id;
	for (size_t i = 0; i < now->set.count; i++)
		all[n++] = now->set.items[i].id;
	for (size_t i = 0; i < n; i++) {
		bool done = all[i].len == 0;
		for (size_t k = 0; k < count && !done; k++)
			done = str_eq(all[i], out[k]);
		if (!done)
			out[count++] = all[i];
	}
	return count;
}

static int update_members(struct apply *a, const struct place *before, const struct place *now)
{
	struct str all[4 + 2 * FSM_REPLICAS_MAX];
	const size_t count = named(before, now, all);
	for (size_t i = 0; i < count; i++) {
		int rc = update_member(a, all[i], before, now);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- what is derived per place ---- */

static int update_move(struct apply *a, const struct place *before, const struct place *now)
{
	uint8_t key[STORE_KEY_MAX];
	const struct str at = key_place(key, now->topic, now->partition);
	if (str_eq(before->target, now->target))
		return 0;
	return now->target.len ? fsm_put(a, STORE_X_MOVE, at, now->target, 0) : fsm_del(a, STORE_X_MOVE, at);
}

static bool is_leaderless(const struct place *p)
{
	return p->owner.len == 0 && p->set.count > 0;
}

static int update_leaderless(struct apply *a, const struct place *before, const struct place *now)
{
	uint8_t key[STORE_KEY_MAX];
	const struct str at = key_place(key, now->topic, now->partition);
	if (is_leaderless(before) == is_leaderless(now))
		return 0;
	return is_leaderless(now) ? fsm_put(a, STORE_X_LEADERLESS, at, (struct str){ "", 0 }, 0)
	                          : fsm_del(a, STORE_X_LEADERLESS, at);
}

/* The slot of a live partition, or the index of orphans for any other row. */
static int update_slot(struct apply *a, const struct place *now)
{
	uint8_t key[STORE_KEY_MAX];
	struct packed old, packed;
	int rc = packed_load(a, now->topic, &old);
	if (rc && rc != ERR_NOTFOUND)
		return rc;
	if (rc == ERR_NOTFOUND || now->partition >= old.count) {
		const struct str at = key_place(key, now->topic, now->partition);
		return now->owner.len ? fsm_put(a, STORE_X_ORPHAN, at, (struct str){ "", 0 }, 0)
		                      : fsm_del(a, STORE_X_ORPHAN, at);
	}
	packed = old;
	packed.slots = arena_dup(a->arena, old.slots, old.count * sizeof(*old.slots));
	packed.owners_index = a->index;
	struct slot *s = &packed.slots[now->partition];
	s->owner = now->owner;
	s->target = now->target;
	s->version = a->index;
	s->leaderless = is_leaderless(now);
	s->pinned = s->pinned && now->owner.len > 0;
	s->move_id = now->target.len ? a->index : 0; /* no row is written with a target but to set it, or its source */
	return packed_store(a, now->topic, &old, &packed);
}

int place_pin(struct apply *a, struct str topic, uint32_t partition, bool pinned)
{
	struct packed old, packed;
	int rc = packed_load(a, topic, &old);
	if (rc)
		return rc;
	assert(partition < old.count);
	if (old.slots[partition].pinned == pinned)
		return 0;
	packed = old;
	packed.slots = arena_dup(a->arena, old.slots, old.count * sizeof(*old.slots));
	packed.owners_index = a->index;
	packed.slots[partition].pinned = pinned;
	packed.slots[partition].version = a->index;
	fsm_touch(a, FSM_DOMAIN_ASSIGNMENTS);
	return packed_store(a, topic, &old, &packed);
}

int place_load(struct apply *a, struct str topic, int64_t partition, struct place *out)
{
	char key[ROW_KEY_MAX];
	struct assignment row = { .topic = topic, .partition = partition };
	const struct str at = { key, row_key(key, topic, partition) };
	int rc = at.len ? fsm_get_record(a, STORE_ASSIGNMENTS, at, &assignment_type, &row) : ERR_NOTFOUND;
	const bool has_row = rc == 0;
	if ((rc && rc != ERR_NOTFOUND) || at.len == 0)
		return rc;
	if (has_row && (partition > PARTITION_MAX || !str_eq(row.topic, topic) || row.partition != partition ||
	                row.owner_id.len == 0))
		return fsm_corrupt(a, STORE_ASSIGNMENTS, at, "the row is not the one of its key");
	if (partition < 0 || partition > PARTITION_MAX)
		return ERR_NOTFOUND;
	*out = (struct place){ topic, (uint32_t)partition, row.owner_id, row.target_id, { 0 } };
	rc = replicas_load(a, topic, (uint32_t)partition, &out->set);
	return rc || has_row || out->set.count > 0 ? rc : ERR_NOTFOUND;
}

/* The row as Narad would have it. Its end is no end of the partition while copies are there. */
static int store_row(struct apply *a, const struct place *before, const struct place *now)
{
	char key[ROW_KEY_MAX];
	char shown[ROW_KEY_MAX];
	const struct str at = { key, row_key(key, now->topic, now->partition) };
	const struct assignment row = { now->topic, now->partition, now->owner, now->target };
	assert(at.len);
	if (now->owner.len)
		return fsm_put_record(a, STORE_ASSIGNMENTS, at, &assignment_type, &row, 0);
	int rc = before->owner.len ? fsm_del(a, STORE_ASSIGNMENTS, at) : 0;
	if (rc || (now->set.count == 0 && before->owner.len))
		return rc;
	memcpy(shown, key, at.len);
	shown[now->topic.len] = '/';
	fsm_note(a, FSM_DOMAIN_ASSIGNMENTS, (struct str){ shown, at.len }, now->set.count ? FSM_OP_PUT : FSM_OP_DELETE);
	return 0;
}

int place_store(struct apply *a, const struct place *before, const struct place *now)
{
	assert(str_eq(before->topic, now->topic) && before->partition == now->partition);
	assert(now->owner.len || now->target.len == 0);
	int rc = store_row(a, before, now);
	if (rc == 0)
		rc = replicas_save(a, before, now);
	if (rc == 0)
		rc = update_members(a, before, now);
	if (rc == 0)
		rc = update_move(a, before, now);
	if (rc == 0)
		rc = update_leaderless(a, before, now);
	if (rc == 0)
		notes_holders(a, before, now);
	return rc ? rc : update_slot(a, now);
}
