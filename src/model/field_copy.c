/* Deep copies: a record that outlives the bytes it was read from. */
#include <assert.h>

#include "model/field.h"
#include "model/field_internal.h"

static void copy_str(struct str *s, struct arena *a)
{
	if (s->p)
		s->p = arena_dup(a, s->p, s->len);
}

static void copy_str_list(struct str_list *l, struct arena *a)
{
	if (!l->items)
		return;
	struct str *items = arena_dup(a, l->items, l->count * sizeof(*items));
	for (size_t i = 0; i < l->count; i++)
		copy_str(&items[i], a);
	l->items = items;
}

static void copy_i64_list(struct i64_list *l, struct arena *a)
{
	if (l->items)
		l->items = arena_dup(a, l->items, l->count * sizeof(*l->items));
}

static void copy_str_map(struct str_map *m, struct arena *a)
{
	if (!m->items)
		return;
	struct str_pair *items = arena_dup(a, m->items, m->count * sizeof(*items));
	for (size_t i = 0; i < m->count; i++) {
		copy_str(&items[i].key, a);
		copy_str(&items[i].value, a);
	}
	m->items = items;
}

static void copy_offsets_map(struct offsets_map *m, struct arena *a)
{
	if (!m->items)
		return;
	struct offsets_item *items = arena_dup(a, m->items, m->count * sizeof(*items));
	for (size_t i = 0; i < m->count; i++)
		copy_i64_list(&items[i].offsets, a);
	m->items = items;
}

static void copy_record_list(struct record_list *l, const struct field *f, struct arena *a)
{
	if (!l->items)
		return;
	char *items = arena_alloc(a, l->count * f->sub->size);
	for (size_t i = 0; i < l->count; i++) {
		void *item = items + i * f->sub->size;
		record_copy(f->sub, record_item(l, f->sub, i), item, a);
		if (f->kind == FIELD_RECORD_MAP)
			copy_str(item, a); /* the key is no field of the table */
	}
	l->items = items;
}

static void copy_record_ptr(void *member, const struct record_type *t, struct arena *a)
{
	const void *from = field_load_ptr(member);
	if (!from)
		return;
	void *to = arena_alloc(a, t->size);
	record_copy(t, from, to, a);
	field_store_ptr(member, to);
}

static void copy_value(const struct field *f, void *m, struct arena *a)
{
	switch ((enum field_kind)f->kind) {
	case FIELD_STR:
	case FIELD_BYTES:
	case FIELD_JSON: copy_str(m, a); return;
	case FIELD_BOOL:
	case FIELD_I64:
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_OPT_BOOL:
	case FIELD_OPT_I64:
	case FIELD_OPT_U64: return;
	case FIELD_STR_LIST: copy_str_list(m, a); return;
	case FIELD_I64_LIST: copy_i64_list(m, a); return;
	case FIELD_STR_MAP: copy_str_map(m, a); return;
	case FIELD_OFFSETS_MAP: copy_offsets_map(m, a); return;
	case FIELD_RECORD: record_copy(f->sub, m, m, a); return;
	case FIELD_RECORD_PTR: copy_record_ptr(m, f->sub, a); return;
	case FIELD_RECORD_LIST:
	case FIELD_RECORD_MAP: copy_record_list(m, f, a); return;
	}
	assert(!"field kind");
}

void record_copy(const struct record_type *t, const void *src, void *dst, struct arena *a)
{
	memmove(dst, src, t->size); /* an embedded record is copied onto itself */
	for (size_t i = 0; i < t->count; i++)
		copy_value(&t->fields[i], field_of(dst, &t->fields[i]), a);
}
