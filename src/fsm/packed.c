/* The value of x_topic: what a GET needs beside the stored record, in one piece. Little-endian:
 *
 *    0 u8  version 1        1 u8 replicated 2 u16 names        4 u32 schema version
 *    8 u64 changed index   16 u64 owners index
 *   24 u32 slots           28 u32 bytes of names               32 u32 bytes of tail   36 u32 0
 *   40 slots, 24 each:     u16 owner, u16 target, u32 flags, u64 version, u64 move id
 *                          (a name: 0 = none, else 1 + its position among the names)
 *      offsets of names:   u32 each, from the first name
 *      names:              u8 length, bytes
 *      tail
 *
 * Names stand once, in the order in which the slots first mention them, so equal contents are equal bytes.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"

#define HEADER 40
#define SLOT 24
#define OFFSET 4
#define PACKED_VERSION 1
#define SLOT_LEADERLESS 1u
#define SLOT_PINNED 2u

static_assert(FSM_PARTITIONS_MAX <= UINT16_MAX / 2, "two names per slot are counted in 16 bits");

struct layout {
	uint32_t names, slots, names_len, tail_len;
	const uint8_t *slot, *offset, *name, *tail; /* where each part begins */
};

static bool lay_out(struct str bytes, struct layout *l)
{
	const uint8_t *b = (const uint8_t *)bytes.p;
	if (bytes.len < HEADER || b[0] != PACKED_VERSION)
		return false;
	l->names = get_le16(b + 2);
	l->slots = get_le32(b + 24);
	l->names_len = get_le32(b + 28);
	l->tail_len = get_le32(b + 32);
	if (l->slots > FSM_PARTITIONS_MAX)
		return false;
	l->slot = b + HEADER;
	l->offset = l->slot + (size_t)l->slots * SLOT;
	l->name = l->offset + (size_t)l->names * OFFSET;
	l->tail = l->name + l->names_len;
	return bytes.len ==
	       HEADER + (size_t)l->slots * SLOT + (size_t)l->names * OFFSET + l->names_len + (size_t)l->tail_len;
}

/* The ref-th name; "" for 0 and for a reference that leads nowhere. */
static struct str name_at(const struct layout *l, uint32_t ref)
{
	if (ref == 0 || ref > l->names)
		return (struct str){ "", 0 };
	const size_t at = get_le32(l->offset + (size_t)(ref - 1) * OFFSET);
	if (at >= l->names_len || at + 1 + l->name[at] > l->names_len)
		return (struct str){ "", 0 };
	return (struct str){ (const char *)l->name + at + 1, l->name[at] };
}

static void slot_at(const struct layout *l, uint32_t p, struct slot *out)
{
	const uint8_t *s = l->slot + (size_t)p * SLOT;
	out->owner = name_at(l, get_le16(s));
	out->target = name_at(l, get_le16(s + 2));
	out->leaderless = (get_le32(s + 4) & SLOT_LEADERLESS) != 0;
	out->pinned = (get_le32(s + 4) & SLOT_PINNED) != 0;
	out->version = get_le64(s + 8);
	out->move_id = get_le64(s + 16);
}

bool packed_decode(struct str bytes, struct arena *a, struct packed *out)
{
	struct layout l;
	if (!lay_out(bytes, &l))
		return false;
	const uint8_t *b = (const uint8_t *)bytes.p;
	out->replicated = b[1] != 0;
	out->schema_version = get_le32(b + 4);
	out->changed_index = get_le64(b + 8);
	out->owners_index = get_le64(b + 16);
	out->count = l.slots;
	out->slots = arena_alloc(a, (size_t)l.slots * sizeof(*out->slots));
	for (uint32_t p = 0; p < l.slots; p++)
		slot_at(&l, p, &out->slots[p]);
	out->tail = (struct str){ (const char *)l.tail, l.tail_len };
	return true;
}

/* ---- writing ---- */

struct names {
	struct str *list; /* room for two per slot */
	uint32_t count;
	size_t len; /* bytes of all, with their length bytes */
};

static uint16_t name_ref(struct names *n, struct str name)
{
	if (name.len == 0)
		return 0;
	/* From the newest: neighbours often share an owner, and round robin repeats a short list. */
	for (uint32_t i = n->count; i > 0; i--)
		if (str_eq(n->list[i - 1], name))
			return (uint16_t)i;
	assert(name.len <= UINT8_MAX);
	n->list[n->count++] = name;
	n->len += 1 + name.len;
	return (uint16_t)n->count;
}

static void put_slots(const struct packed *p, struct names *n, uint8_t *to)
{
	for (uint32_t i = 0; i < p->count; i++, to += SLOT) {
		const struct slot *s = &p->slots[i];
		put_le16(to, name_ref(n, s->owner));
		put_le16(to + 2, name_ref(n, s->target));
		put_le32(to + 4, (s->leaderless ? SLOT_LEADERLESS : 0) | (s->pinned ? SLOT_PINNED : 0));
		put_le64(to + 8, s->version);
		put_le64(to + 16, s->move_id);
	}
}

static void put_names(const struct names *n, struct buf *out)
{
	uint8_t offset[OFFSET];
	uint32_t at = 0;
	for (uint32_t i = 0; i < n->count; i++) {
		put_le32(offset, at);
		buf_put(out, offset, sizeof(offset));
		at += 1 + (uint32_t)n->list[i].len;
	}
	for (uint32_t i = 0; i < n->count; i++) {
		buf_putc(out, (char)n->list[i].len);
		buf_put(out, n->list[i].p, n->list[i].len);
	}
}

void packed_encode(const struct packed *p, struct buf *out)
{
	assert(p->count <= FSM_PARTITIONS_MAX);
	struct names names = { .list = mem_alloc((2 * (size_t)p->count + 1) * sizeof(struct str)) };
	const size_t start = out->len;
	const size_t fixed = HEADER + (size_t)p->count * SLOT;
	buf_reserve(out, fixed);
	buf_advance(out, fixed);
	put_slots(p, &names, out->data + start + HEADER);

	uint8_t *b = out->data + start;
	b[0] = PACKED_VERSION;
	b[1] = p->replicated;
	put_le16(b + 2, (uint16_t)names.count);
	put_le32(b + 4, p->schema_version);
	put_le64(b + 8, p->changed_index);
	put_le64(b + 16, p->owners_index);
	put_le32(b + 24, p->count);
	put_le32(b + 28, (uint32_t)names.len);
	put_le32(b + 32, (uint32_t)p->tail.len);
	put_le32(b + 36, 0);
	put_names(&names, out);
	buf_put(out, p->tail.p, p->tail.len);
	mem_free(names.list);
}

uint32_t packed_unplaced(const struct packed *p)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->count; i++)
		n += p->slots[i].owner.len == 0 && !p->slots[i].leaderless;
	return n;
}

void fsm_put_topic_tail(const struct topic *t, const struct topic_extra *x, struct buf *out)
{
	assert(x->replicas > 0); /* TOPIC_EXTRA_DEFAULT is what a topic without additions has */
	if (t->role.len == 0)
		buf_puts(out, ",\"role\":\"" TOPIC_ROLE_STANDALONE "\"");
	/* An object goes on where another one ends. */
	const size_t at = out->len;
	record_put_json(&topic_extra_type, x, out);
	out->data[at] = ',';
	out->len--;
}

/* ---- readers ---- */

void fsm_topic_owner(const struct fsm_topic *t, uint32_t p, struct fsm_owner *out)
{
	struct layout l;
	struct slot s;
	const bool ok = lay_out(t->packed, &l);
	assert(ok && p < l.slots);
	slot_at(&l, p, &s);
	*out = (struct fsm_owner){ s.owner, s.target, s.version, s.move_id, s.leaderless, s.pinned };
}

bool packed_read_topic(struct str bytes, struct fsm_topic *out)
{
	struct layout l;
	if (!lay_out(bytes, &l))
		return false;
	const uint8_t *b = (const uint8_t *)bytes.p;
	out->packed = bytes;
	out->replicated = b[1] != 0;
	out->schema_version = get_le32(b + 4);
	out->changed_index = get_le64(b + 8);
	out->owners_index = get_le64(b + 16);
	out->partition_count = l.slots;
	out->tail = (struct str){ (const char *)l.tail, l.tail_len };
	return true;
}
