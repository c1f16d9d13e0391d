/* msgpack out and in: one array in table order, nil for absent. What is read is checked three times over: mp_check for
 * the frame, the reader for its bounds, and here counts against what their elements need at least, so that memory stays
 * in proportion to the bytes that were sent. */
#include <assert.h>

#include "model/field.h"
#include "model/field_internal.h"

/* ---- out ---- */

static void write_value(const struct field *f, const void *m, struct mp_writer *w);

static void write_str_list(const struct str_list *l, struct mp_writer *w)
{
	mp_put_array(w, l->count);
	for (size_t i = 0; i < l->count; i++)
		mp_put_str(w, l->items[i]);
}

static void write_i64_list(const struct i64_list *l, struct mp_writer *w)
{
	mp_put_array(w, l->count);
	for (size_t i = 0; i < l->count; i++)
		mp_put_i64(w, l->items[i]);
}

static void write_str_map(const struct str_map *m, struct mp_writer *w)
{
	assert(str_map_is_sorted(m));
	mp_put_map(w, m->count);
	for (size_t i = 0; i < m->count; i++) {
		mp_put_str(w, m->items[i].key);
		if (m->items[i].value.p)
			mp_put_str(w, m->items[i].value);
		else
			mp_put_nil(w);
	}
}

static void write_offsets_map(const struct offsets_map *m, struct mp_writer *w)
{
	assert(offsets_map_is_sorted(m));
	mp_put_map(w, m->count);
	for (size_t i = 0; i < m->count; i++) {
		mp_put_i64(w, m->items[i].key);
		write_i64_list(&m->items[i].offsets, w);
	}
}

static void write_record_list(const struct record_list *l, const struct record_type *t, struct mp_writer *w)
{
	mp_put_array(w, l->count);
	for (size_t i = 0; i < l->count; i++)
		record_write_mp(t, record_item(l, t, i), w);
}

static void write_record_map(const struct record_list *l, const struct record_type *t, struct mp_writer *w)
{
	assert(record_map_is_sorted(l, t));
	mp_put_map(w, l->count);
	for (size_t i = 0; i < l->count; i++) {
		const void *item = record_item(l, t, i);
		mp_put_str(w, *(const struct str *)item);
		record_write_mp(t, item, w);
	}
}

static void write_value(const struct field *f, const void *m, struct mp_writer *w)
{
	const struct str *s = m;
	switch ((enum field_kind)f->kind) {
	case FIELD_STR:
	case FIELD_JSON: mp_put_str(w, *s); return;
	case FIELD_BYTES: mp_put_bin(w, s->p, s->len); return;
	case FIELD_BOOL: mp_put_bool(w, *(const bool *)m); return;
	case FIELD_I64: mp_put_i64(w, *(const int64_t *)m); return;
	case FIELD_U64: mp_put_u64(w, *(const uint64_t *)m); return;
	case FIELD_U32: mp_put_u64(w, *(const uint32_t *)m); return;
	case FIELD_OPT_BOOL: mp_put_bool(w, ((const struct opt_bool *)m)->value); return;
	case FIELD_OPT_I64: mp_put_i64(w, ((const struct opt_i64 *)m)->value); return;
	case FIELD_OPT_U64: mp_put_u64(w, ((const struct opt_u64 *)m)->value); return;
	case FIELD_STR_LIST: write_str_list(m, w); return;
	case FIELD_I64_LIST: write_i64_list(m, w); return;
	case FIELD_STR_MAP: write_str_map(m, w); return;
	case FIELD_OFFSETS_MAP: write_offsets_map(m, w); return;
	case FIELD_RECORD: record_write_mp(f->sub, m, w); return;
	case FIELD_RECORD_PTR: record_write_mp(f->sub, field_load_ptr(m), w); return;
	case FIELD_RECORD_LIST: write_record_list(m, f->sub, w); return;
	case FIELD_RECORD_MAP: write_record_map(m, f->sub, w); return;
	}
	assert(!"field kind");
}

void record_write_mp(const struct record_type *t, const void *rec, struct mp_writer *w)
{
	mp_put_array(w, t->count);
	for (size_t i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		const void *m = field_at(rec, f);
		if (field_is_absent(f, m))
			mp_put_nil(w);
		else
			write_value(f, m, w);
	}
}

/* ---- in ---- */

struct in {
	struct mp_reader r;
	struct arena *a;
	const struct record_type *bad_type; /* innermost record and field of the first failure */
	const struct field *bad_field;
};

static void read_fields(struct in *in, const struct record_type *t, void *out);

/* A count whose elements need at least `each` bytes; 0 after a failure. */
static size_t take_count(struct in *in, size_t count, size_t each)
{
	if (count > (size_t)(in->r.end - in->r.p) / each) {
		mp_read_fail(&in->r, "a count goes beyond the bytes");
		return 0;
	}
	return count;
}

static void read_str_list(struct in *in, struct str_list *out)
{
	const size_t count = take_count(in, mp_read_array(&in->r), 1);
	struct str *items = arena_alloc(in->a, count * sizeof(*items));
	for (size_t i = 0; i < count; i++)
		items[i] = mp_read_str(&in->r);
	*out = (struct str_list){ items, count };
}

static void read_i64_list(struct in *in, struct i64_list *out)
{
	const size_t count = take_count(in, mp_read_array(&in->r), 1);
	int64_t *items = arena_alloc(in->a, count * sizeof(*items));
	for (size_t i = 0; i < count; i++)
		items[i] = mp_read_i64(&in->r);
	*out = (struct i64_list){ items, count };
}

static void read_str_map(struct in *in, const struct field *f, struct str_map *out)
{
	const size_t count = take_count(in, mp_read_map(&in->r), 2);
	struct str_pair *items = arena_zalloc(in->a, count * sizeof(*items));
	for (size_t i = 0; i < count && mp_read_ok(&in->r); i++) {
		items[i].key = mp_read_str(&in->r);
		if (!(f->flags & FIELD_NULL_VALUES && mp_read_nil(&in->r)))
			items[i].value = mp_read_str(&in->r);
	}
	*out = (struct str_map){ items, count };
	if (mp_read_ok(&in->r) && !str_map_is_sorted(out))
		mp_read_fail(&in->r, "keys out of order");
}

static void read_offsets_map(struct in *in, struct offsets_map *out)
{
	const size_t count = take_count(in, mp_read_map(&in->r), 2);
	struct offsets_item *items = arena_zalloc(in->a, count * sizeof(*items));
	for (size_t i = 0; i < count && mp_read_ok(&in->r); i++) {
		items[i].key = mp_read_i64(&in->r);
		if (items[i].key < 0)
			mp_read_fail(&in->r, "a partition below 0");
		read_i64_list(in, &items[i].offsets);
	}
	*out = (struct offsets_map){ items, count };
	if (mp_read_ok(&in->r) && !offsets_map_is_sorted(out))
		mp_read_fail(&in->r, "keys out of order");
}

static void read_record_ptr(struct in *in, const struct record_type *t, void *member)
{
	void *rec = arena_zalloc(in->a, t->size);
	read_fields(in, t, rec);
	field_store_ptr(member, rec);
}

static void read_record_list(struct in *in, const struct record_type *t, struct record_list *out)
{
	const size_t count = take_count(in, mp_read_array(&in->r), 1 + t->count);
	char *items = arena_zalloc(in->a, count * t->size);
	for (size_t i = 0; i < count && mp_read_ok(&in->r); i++)
		read_fields(in, t, items + i * t->size);
	*out = (struct record_list){ items, count };
}

static void read_record_map(struct in *in, const struct record_type *t, struct record_list *out)
{
	const size_t count = take_count(in, mp_read_map(&in->r), 2 + t->count);
	char *items = arena_zalloc(in->a, count * t->size);
	for (size_t i = 0; i < count && mp_read_ok(&in->r); i++) {
		struct str *key = (struct str *)(void *)(items + i * t->size);
		*key = mp_read_str(&in->r);
		read_fields(in, t, key);
	}
	*out = (struct record_list){ items, count };
	if (mp_read_ok(&in->r) && !record_map_is_sorted(out, t))
		mp_read_fail(&in->r, "keys out of order");
}

/* A document that came as text is text from outside. */
static void read_doc(struct in *in, struct str *out)
{
	*out = mp_read_str(&in->r);
	if (mp_read_ok(&in->r) && json_check(*out, JSON_DEPTH_DEFAULT, in->a, NULL, NULL))
		mp_read_fail(&in->r, "not a JSON document");
}

static void read_value(struct in *in, const struct field *f, void *m)
{
	struct mp_reader *r = &in->r;
	switch ((enum field_kind)f->kind) {
	case FIELD_STR: *(struct str *)m = mp_read_str(r); return;
	case FIELD_JSON: read_doc(in, m); return;
	case FIELD_BYTES: *(struct str *)m = mp_read_bin(r); return;
	case FIELD_BOOL: *(bool *)m = mp_read_bool(r); return;
	case FIELD_I64: *(int64_t *)m = mp_read_i64(r); return;
	case FIELD_U64: *(uint64_t *)m = mp_read_u64(r); return;
	case FIELD_U32: *(uint32_t *)m = mp_read_u32(r); return;
	case FIELD_OPT_BOOL: *(struct opt_bool *)m = (struct opt_bool){ .value = mp_read_bool(r), .set = true }; return;
	case FIELD_OPT_I64: *(struct opt_i64 *)m = (struct opt_i64){ .value = mp_read_i64(r), .set = true }; return;
	case FIELD_OPT_U64: *(struct opt_u64 *)m = (struct opt_u64){ .value = mp_read_u64(r), .set = true }; return;
	case FIELD_STR_LIST: read_str_list(in, m); return;
	case FIELD_I64_LIST: read_i64_list(in, m); return;
	case FIELD_STR_MAP: read_str_map(in, f, m); return;
	case FIELD_OFFSETS_MAP: read_offsets_map(in, m); return;
	case FIELD_RECORD: read_fields(in, f->sub, m); return;
	case FIELD_RECORD_PTR: read_record_ptr(in, f->sub, m); return;
	case FIELD_RECORD_LIST: read_record_list(in, f->sub, m); return;
	case FIELD_RECORD_MAP: read_record_map(in, f->sub, m); return;
	}
	assert(!"field kind");
}

static void read_fields(struct in *in, const struct record_type *t, void *out)
{
	mp_read_array_of(&in->r, t->count);
	for (size_t i = 0; i < t->count && mp_read_ok(&in->r); i++) {
		const struct field *f = &t->fields[i];
		if (field_may_be_absent(f) && mp_read_nil(&in->r))
			continue;
		read_value(in, f, field_of(out, f));
		if (!mp_read_ok(&in->r) && !in->bad_field) {
			in->bad_type = t;
			in->bad_field = f;
		}
	}
}

int record_read_mp(const struct record_type *t, const void *bytes, size_t len, struct arena *a, void *out,
                   struct err *e)
{
	int rc = mp_check(bytes, len, e);
	if (rc)
		return rc;
	struct in in = { .a = a };
	mp_reader_init(&in.r, bytes, len);
	void *rec = arena_zalloc(a, t->size);
	read_fields(&in, t, rec);
	if (in.bad_field)
		return err_set(e, ERR_CORRUPT, "%s: %s.%s: %s", t->name, in.bad_type->name, in.bad_field->name,
		               in.r.error);
	if (!mp_read_end(&in.r))
		return err_set(e, ERR_CORRUPT, "%s: %s", t->name, in.r.error ? in.r.error : "something follows");
	memcpy(out, rec, t->size);
	return 0;
}
