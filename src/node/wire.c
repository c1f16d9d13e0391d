/* A raft message is one array; its entries follow each other flat, three values each, in an array of their own:
 *
 *   [cluster_id, type, from, to, term, index, log_term, commit, hint, hint_term, round, offset, size, flag,
 *    conf: nil | bin, entries: [term, kind, bin, ...], data: nil | bin]
 *
 * Indexes of entries are not sent: they follow the message's previous index. */
#include "node/wire.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/slab.h"
#include "model/mp.h"

#define MSG_FIELDS 17
#define ENTRY_VALUES 3 /* term, kind, payload */

/* No log gets anywhere near: indexes and terms beyond it are lies, and arithmetic on them would wrap. */
#define NUMBER_MAX (UINT64_MAX / 2)

struct wire_cut {
	size_t at; /* the payload stands behind so many bytes of head */
	const void *p;
	size_t len;
	struct slab *slab;
};

void wire_out_fini(struct wire_out *o)
{
	buf_fini(&o->head);
	mem_free(o->cuts);
	mem_free(o->pieces);
	memset(o, 0, sizeof(*o));
}

static void out_reset(struct wire_out *o)
{
	buf_clear(&o->head);
	o->cut_count = 0;
}

/* A bin value. Only its head is written when the payload is worth a piece of its own. */
static void put_payload(struct wire_out *o, const void *p, size_t len, struct slab *slab)
{
	struct mp_writer w = { &o->head };
	if (!slab || len <= WIRE_COPY_MAX) {
		mp_put_bin(&w, p, len);
		return;
	}
	uint8_t head[5] = { 0xc6 }; /* bin 32: msgpack has no writer for a head without its bytes */
	head[1] = (uint8_t)(len >> 24);
	head[2] = (uint8_t)(len >> 16);
	head[3] = (uint8_t)(len >> 8);
	head[4] = (uint8_t)len;
	buf_put(&o->head, head, sizeof(head));
	if (o->cut_count == o->cut_cap) {
		o->cut_cap = o->cut_cap ? o->cut_cap * 2 : 64;
		o->cuts = mem_realloc(o->cuts, o->cut_cap * sizeof(*o->cuts));
	}
	o->cuts[o->cut_count++] = (struct wire_cut){ .at = o->head.len, .p = p, .len = len, .slab = slab };
}

const struct net_piece *wire_pieces(struct wire_out *o, size_t *count)
{
	const size_t need = 2 * o->cut_count + 1;
	if (o->piece_cap < need) {
		o->piece_cap = need;
		o->pieces = mem_realloc(o->pieces, need * sizeof(*o->pieces));
	}
	size_t n = 0;
	size_t from = 0;
	for (size_t i = 0; i < o->cut_count; i++) {
		const struct wire_cut *c = &o->cuts[i];
		o->pieces[n++] = (struct net_piece){ .p = o->head.data + from, .len = c->at - from };
		o->pieces[n++] = (struct net_piece){ .p = c->p, .len = c->len, .slab = c->slab };
		from = c->at;
	}
	if (from < o->head.len)
		o->pieces[n++] = (struct net_piece){ .p = o->head.data + from, .len = o->head.len - from };
	*count = n;
	return o->pieces;
}

/* ---- raft messages ---- */

static void put_conf(struct mp_writer *w, const struct raft_conf *c)
{
	if (!c) {
		mp_put_nil(w);
		return;
	}
	struct buf b = { 0 };
	raft_conf_encode(c, &b);
	mp_put_bin(w, b.data, b.len);
	buf_fini(&b);
}

void wire_put_msg(struct wire_out *o, uint64_t cluster_id, const struct raft_msg *m)
{
	assert(m->entry_count <= WIRE_ENTRIES_MAX);
	out_reset(o);
	struct mp_writer w = { &o->head };
	mp_put_array(&w, MSG_FIELDS);
	mp_put_u64(&w, cluster_id);
	mp_put_u64(&w, (uint64_t)m->type);
	mp_put_u64(&w, m->from);
	mp_put_u64(&w, m->to);
	mp_put_u64(&w, m->term);
	mp_put_u64(&w, m->index);
	mp_put_u64(&w, m->log_term);
	mp_put_u64(&w, m->commit);
	mp_put_u64(&w, m->hint);
	mp_put_u64(&w, m->hint_term);
	mp_put_u64(&w, m->round);
	mp_put_u64(&w, m->offset);
	mp_put_u64(&w, m->size);
	mp_put_bool(&w, m->flag);
	put_conf(&w, m->conf);
	mp_put_array(&w, m->entry_count * ENTRY_VALUES);
	for (size_t i = 0; i < m->entry_count; i++) {
		const struct entry *e = &m->entries[i];
		assert(e->index == m->index + 1 + i);
		mp_put_u64(&w, e->term);
		mp_put_u64(&w, e->kind);
		put_payload(o, e->data, e->len, e->slab);
	}
	if (m->data_len > 0)
		put_payload(o, m->data, m->data_len, m->slab);
	else
		mp_put_nil(&w);
}

static uint64_t read_number(struct mp_reader *r)
{
	const uint64_t v = mp_read_u64(r);
	if (v > NUMBER_MAX)
		mp_read_fail(r, "an index or term out of range");
	return v;
}

static const struct raft_conf *read_conf(struct mp_reader *r, struct arena *a)
{
	if (mp_read_nil(r))
		return NULL;
	const struct str bytes = mp_read_bin(r);
	if (!mp_read_ok(r))
		return NULL;
	struct raft_conf *c = arena_alloc(a, sizeof(*c));
	if (raft_conf_decode(bytes.p, bytes.len, c, NULL) != 0) {
		mp_read_fail(r, "a configuration that does not decode");
		return NULL;
	}
	return c;
}

static const char *entry_fault(const struct entry *e, const struct raft_msg *m, raft_term before)
{
	if (e->term < before || e->term > m->term || e->term == 0)
		return "entry terms out of order";
	if (e->len > ENTRY_PAYLOAD_MAX)
		return "an entry over its size limit";
	switch ((enum entry_kind)e->kind) {
	case ENTRY_NOOP: return e->len == 0 ? NULL : "a no-op with a payload";
	case ENTRY_COMMAND: return e->len > 0 ? NULL : "a command without a payload";
	case ENTRY_CONFIG: {
		struct raft_conf c;
		return raft_conf_decode(e->data, e->len, &c, NULL) == 0 ? NULL : "a configuration that does not decode";
	}
	}
	return "an entry of unknown kind";
}

static void read_entries(struct mp_reader *r, struct slab *slab, struct arena *a, struct raft_msg *m)
{
	const size_t values = mp_read_array(r);
	const size_t n = values / ENTRY_VALUES;
	if (values % ENTRY_VALUES != 0 || n > WIRE_ENTRIES_MAX) {
		mp_read_fail(r, "a bad count of entries");
		return;
	}
	if (n > 0 && m->type != RAFT_MSG_APPEND) {
		mp_read_fail(r, "entries in a message that has none");
		return;
	}
	struct entry *entries = n > 0 ? arena_alloc(a, n * sizeof(*entries)) : NULL;
	raft_term before = m->log_term;
	for (size_t i = 0; i < n && mp_read_ok(r); i++) {
		struct entry *e = &entries[i];
		e->index = m->index + 1 + i;
		e->term = read_number(r);
		const uint64_t kind = mp_read_u64(r);
		e->kind = kind <= UINT8_MAX ? (uint8_t)kind : 0;
		const struct str payload = mp_read_bin(r);
		if (!mp_read_ok(r))
			return;
		e->len = payload.len <= UINT32_MAX ? (uint32_t)payload.len : UINT32_MAX;
		e->data = payload.len > 0 ? (const uint8_t *)payload.p : NULL;
		e->slab = payload.len > 0 ? slab : NULL;
		const char *fault = entry_fault(e, m, before);
		if (fault)
			mp_read_fail(r, fault);
		before = e->term;
	}
	m->entries = entries;
	m->entry_count = n;
}

int wire_get_msg(struct slab *slab, const uint8_t *body, size_t len, struct arena *a, uint64_t *cluster_id,
                 struct raft_msg *out, struct err *e)
{
	if (mp_check(body, len, e) != 0)
		return ERR_CORRUPT;
	struct raft_msg m = { 0 };
	struct mp_reader r;
	mp_reader_init(&r, body, len);
	mp_read_array_of(&r, MSG_FIELDS);
	const uint64_t cluster = mp_read_u64(&r);
	const uint64_t type = mp_read_u64(&r);
	if (type < RAFT_MSG_PREVOTE || type > RAFT_MSG_SNAPSHOT_REPLY)
		mp_read_fail(&r, "an unknown type of message");
	m.type = (enum raft_msg_type)type;
	m.from = mp_read_u64(&r);
	m.to = mp_read_u64(&r);
	m.term = read_number(&r);
	m.index = read_number(&r);
	m.log_term = read_number(&r);
	m.commit = read_number(&r);
	m.hint = read_number(&r);
	m.hint_term = read_number(&r);
	m.round = mp_read_u64(&r);
	m.offset = read_number(&r);
	m.size = read_number(&r);
	m.flag = mp_read_bool(&r);
	m.conf = read_conf(&r, a);
	read_entries(&r, slab, a, &m);
	if (!mp_read_nil(&r)) {
		const struct str data = mp_read_bin(&r);
		m.data = (const uint8_t *)data.p;
		m.data_len = data.len;
		m.slab = slab;
		if (m.type != RAFT_MSG_SNAPSHOT)
			mp_read_fail(&r, "bytes of an image in a message that has none");
	}
	if (!mp_read_end(&r))
		return err_set(e, ERR_CORRUPT, "raft message: %s", r.error ? r.error : "bytes behind it");
	*cluster_id = cluster;
	*out = m;
	return 0;
}

/* ---- small bodies ---- */

static const struct field probe_fields[] = {
	FIELD(U64, wire_probe, round, "round", 0),
};
const struct record_type wire_probe_type = RECORD_TYPE("probe", wire_probe, probe_fields);

static const struct field probe_reply_fields[] = {
	FIELD(U64, wire_probe_reply, round, "round", 0),
	FIELD(U64, wire_probe_reply, cluster_id, "cluster_id", 0),
	FIELD(BOOL, wire_probe_reply, empty, "empty", 0),
	FIELD(STR, wire_probe_reply, addr, "addr", 0),
};
const struct record_type wire_probe_reply_type = RECORD_TYPE("probe reply", wire_probe_reply, probe_reply_fields);

static const struct field register_fields[] = {
	FIELD(U64, wire_register, request, "request", 0), FIELD(STR, wire_register, id, "id", 0),
	FIELD(STR, wire_register, addr, "addr", 0),       FIELD(STR, wire_register, cluster_addr, "cluster_addr", 0),
	FIELD(STR, wire_register, build, "build", 0),     FIELD(U32, wire_register, entry_types, "entry_types", 0),
	FIELD(BOOL, wire_register, extra, "extra", 0),    FIELD(BOOL, wire_register, placeable, "placeable", 0),
	FIELD(STR_MAP, wire_register, tags, "tags", 0),
};
const struct record_type wire_register_type = RECORD_TYPE("register", wire_register, register_fields);

static const struct field register_reply_fields[] = {
	FIELD(U64, wire_register_reply, request, "request", 0),
	FIELD(I64, wire_register_reply, code, "code", 0),
	FIELD(U64, wire_register_reply, index, "index", 0),
};
const struct record_type wire_register_reply_type =
    RECORD_TYPE("register reply", wire_register_reply, register_reply_fields);

static const struct field join_fields[] = {
	FIELD(STR, wire_join, id, "id", 0),        FIELD(U64, wire_join, incarnation, "incarnation", 0),
	FIELD(STR, wire_join, addr, "addr", 0),    FIELD(BOOL, wire_join, voter, "voter", 0),
	FIELD(BOOL, wire_join, fresh, "fresh", 0), FIELD(BOOL, wire_join, passed_on, "passed_on", 0),
};
const struct record_type wire_join_type = RECORD_TYPE("join", wire_join, join_fields);

static const struct field join_reply_fields[] = {
	FIELD(U32, wire_join_reply, code, "code", 0),
	FIELD(STR, wire_join_reply, text, "text", 0),
};
const struct record_type wire_join_reply_type = RECORD_TYPE("join reply", wire_join_reply, join_reply_fields);

void wire_put_record(struct wire_out *o, const struct record_type *t, const void *rec)
{
	out_reset(o);
	struct mp_writer w = { &o->head };
	record_write_mp(t, rec, &w);
}
