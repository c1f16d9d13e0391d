/* The walk over a record, and JSON out, which is one visitor among others. */
#include <assert.h>

#include "model/field.h"
#include "model/field_internal.h"

static void visit_str_list(const struct str_list *l, const struct record_visitor *v, void *arg)
{
	v->begin_array(arg, l->count);
	for (size_t i = 0; i < l->count; i++)
		v->put_str(arg, l->items[i]);
	v->end_array(arg);
}

static void visit_i64_list(const struct i64_list *l, const struct record_visitor *v, void *arg)
{
	v->begin_array(arg, l->count);
	for (size_t i = 0; i < l->count; i++)
		v->put_i64(arg, l->items[i]);
	v->end_array(arg);
}

static void visit_str_map(const struct str_map *m, const struct record_visitor *v, void *arg)
{
	assert(str_map_is_sorted(m));
	v->begin_object(arg, m->count);
	for (size_t i = 0; i < m->count; i++) {
		v->key(arg, m->items[i].key);
		if (m->items[i].value.p)
			v->put_str(arg, m->items[i].value);
		else
			v->put_null(arg);
	}
	v->end_object(arg);
}

static void visit_offsets_map(const struct offsets_map *m, const struct record_visitor *v, void *arg)
{
	assert(offsets_map_is_sorted(m));
	v->begin_object(arg, m->count);
	for (size_t i = 0; i < m->count; i++) {
		char text[20];
		v->key(arg, (struct str){ text, decimal_text(text, m->items[i].key) });
		visit_i64_list(&m->items[i].offsets, v, arg);
	}
	v->end_object(arg);
}

static void visit_record_list(const struct record_list *l, const struct field *f, unsigned flags,
                              const struct record_visitor *v, void *arg)
{
	v->begin_array(arg, l->count);
	for (size_t i = 0; i < l->count; i++)
		record_visit(f->sub, record_item(l, f->sub, i), flags, v, arg);
	v->end_array(arg);
}

static void visit_record_map(const struct record_list *l, const struct field *f, unsigned flags,
                             const struct record_visitor *v, void *arg)
{
	assert(record_map_is_sorted(l, f->sub));
	v->begin_object(arg, l->count);
	for (size_t i = 0; i < l->count; i++) {
		const void *item = record_item(l, f->sub, i);
		v->key(arg, *(const struct str *)item);
		record_visit(f->sub, item, flags, v, arg);
	}
	v->end_object(arg);
}

static void visit_value(const struct field *f, const void *m, unsigned flags, const struct record_visitor *v, void *arg)
{
	switch ((enum field_kind)f->kind) {
	case FIELD_STR: v->put_str(arg, *(const struct str *)m); return;
	case FIELD_BYTES: v->put_bytes(arg, *(const struct str *)m); return;
	case FIELD_JSON: v->put_json(arg, *(const struct str *)m); return;
	case FIELD_BOOL: v->put_bool(arg, *(const bool *)m); return;
	case FIELD_I64: v->put_i64(arg, *(const int64_t *)m); return;
	case FIELD_U64: v->put_u64(arg, *(const uint64_t *)m); return;
	case FIELD_U32: v->put_u64(arg, *(const uint32_t *)m); return;
	case FIELD_OPT_BOOL: v->put_bool(arg, ((const struct opt_bool *)m)->value); return;
	case FIELD_OPT_I64: v->put_i64(arg, ((const struct opt_i64 *)m)->value); return;
	case FIELD_OPT_U64: v->put_u64(arg, ((const struct opt_u64 *)m)->value); return;
	case FIELD_STR_LIST: visit_str_list(m, v, arg); return;
	case FIELD_I64_LIST: visit_i64_list(m, v, arg); return;
	case FIELD_STR_MAP: visit_str_map(m, v, arg); return;
	case FIELD_OFFSETS_MAP: visit_offsets_map(m, v, arg); return;
	case FIELD_RECORD: record_visit(f->sub, m, flags, v, arg); return;
	case FIELD_RECORD_PTR: record_visit(f->sub, field_load_ptr(m), flags, v, arg); return;
	case FIELD_RECORD_LIST: visit_record_list(m, f, flags, v, arg); return;
	case FIELD_RECORD_MAP: visit_record_map(m, f, flags, v, arg); return;
	}
	assert(!"field kind");
}

void record_visit_fields(const struct record_type *t, const void *rec, unsigned flags, const struct record_visitor *v,
                         void *arg)
{
	for (size_t i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		const void *m = field_at(rec, f);
		if ((f->flags & FIELD_SECRET && flags & RECORD_PUBLIC) || field_is_absent(f, m))
			continue;
		v->key(arg, str_of(f->name));
		visit_value(f, m, flags, v, arg);
	}
}

void record_visit(const struct record_type *t, const void *rec, unsigned flags, const struct record_visitor *v,
                  void *arg)
{
	v->begin_object(arg, t->count);
	record_visit_fields(t, rec, flags, v, arg);
	v->end_object(arg);
}

/* ---- JSON out ---- */

static void begin_object_cb(void *arg, size_t count)
{
	(void)count;
	json_begin_object(arg);
}

static void end_object_cb(void *arg)
{
	json_end_object(arg);
}

static void begin_array_cb(void *arg, size_t count)
{
	(void)count;
	json_begin_array(arg);
}

static void end_array_cb(void *arg)
{
	json_end_array(arg);
}

static void key_cb(void *arg, struct str key)
{
	json_key_str(arg, key);
}

static void put_str_cb(void *arg, struct str s)
{
	json_put_str(arg, s);
}

static void put_bytes_cb(void *arg, struct str bytes)
{
	json_put_base64(arg, bytes);
}

static void put_json_cb(void *arg, struct str doc)
{
	json_put_doc(arg, doc);
}

static void put_bool_cb(void *arg, bool v)
{
	json_put_bool(arg, v);
}

static void put_i64_cb(void *arg, int64_t v)
{
	json_put_i64(arg, v);
}

static void put_u64_cb(void *arg, uint64_t v)
{
	json_put_u64(arg, v);
}

static void put_null_cb(void *arg)
{
	json_put_null(arg);
}

static const struct record_visitor json_visitor = {
	.begin_object = begin_object_cb,
	.end_object = end_object_cb,
	.begin_array = begin_array_cb,
	.end_array = end_array_cb,
	.key = key_cb,
	.put_str = put_str_cb,
	.put_bytes = put_bytes_cb,
	.put_json = put_json_cb,
	.put_bool = put_bool_cb,
	.put_i64 = put_i64_cb,
	.put_u64 = put_u64_cb,
	.put_null = put_null_cb,
};

void record_write_json(const struct record_type *t, const void *rec, unsigned flags, struct json_writer *w)
{
	record_visit(t, rec, flags, &json_visitor, w);
}

void record_write_json_fields(const struct record_type *t, const void *rec, unsigned flags, struct json_writer *w)
{
	record_visit_fields(t, rec, flags, &json_visitor, w);
}

void record_put_json(const struct record_type *t, const void *rec, struct buf *out)
{
	struct json_writer w = { .out = out };
	record_write_json(t, rec, 0, &w);
}
