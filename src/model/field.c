/* What absent means, the orders of maps, and look-up by name. */
#include "model/field.h"

#include <assert.h>

#include "model/field_internal.h"

static_assert(sizeof(const struct record_type *) == sizeof(const void *), "RECORD_PTR members are loaded as void *");

/* Zero, false or of no length: what Go's omitempty leaves out. */
static bool is_empty(const struct field *f, const void *m)
{
	switch ((enum field_kind)f->kind) {
	case FIELD_STR:
	case FIELD_BYTES:
	case FIELD_JSON: return ((const struct str *)m)->len == 0;
	case FIELD_BOOL: return !*(const bool *)m;
	case FIELD_I64: return *(const int64_t *)m == 0;
	case FIELD_U64: return *(const uint64_t *)m == 0;
	case FIELD_U32: return *(const uint32_t *)m == 0;
	case FIELD_OPT_BOOL: return !((const struct opt_bool *)m)->set;
	case FIELD_OPT_I64: return !((const struct opt_i64 *)m)->set;
	case FIELD_OPT_U64: return !((const struct opt_u64 *)m)->set;
	case FIELD_STR_LIST: return ((const struct str_list *)m)->count == 0;
	case FIELD_I64_LIST: return ((const struct i64_list *)m)->count == 0;
	case FIELD_STR_MAP: return ((const struct str_map *)m)->count == 0;
	case FIELD_OFFSETS_MAP: return ((const struct offsets_map *)m)->count == 0;
	case FIELD_RECORD: return false;
	case FIELD_RECORD_PTR: return !field_load_ptr(m);
	case FIELD_RECORD_LIST:
	case FIELD_RECORD_MAP: return ((const struct record_list *)m)->count == 0;
	}
	assert(!"field kind");
	return false;
}

/* A NULL pointer where a value of no length would have one. */
static bool is_missing(const struct field *f, const void *m)
{
	switch ((enum field_kind)f->kind) {
	case FIELD_STR:
	case FIELD_BYTES:
	case FIELD_JSON: return !((const struct str *)m)->p;
	case FIELD_STR_LIST: return !((const struct str_list *)m)->items;
	case FIELD_I64_LIST: return !((const struct i64_list *)m)->items;
	case FIELD_STR_MAP: return !((const struct str_map *)m)->items;
	case FIELD_OFFSETS_MAP: return !((const struct offsets_map *)m)->items;
	case FIELD_RECORD_LIST:
	case FIELD_RECORD_MAP: return !((const struct record_list *)m)->items;
	default: return false;
	}
}

/* Kinds that carry their own absence, or, as a document, have no empty value. */
static bool is_optional_kind(const struct field *f)
{
	return f->kind == FIELD_OPT_BOOL || f->kind == FIELD_OPT_I64 || f->kind == FIELD_OPT_U64 ||
	       f->kind == FIELD_RECORD_PTR || f->kind == FIELD_JSON;
}

bool field_is_absent(const struct field *f, const void *member)
{
	if ((f->flags & FIELD_OMITEMPTY) || is_optional_kind(f))
		return is_empty(f, member);
	return (f->flags & FIELD_OPTIONAL) && is_missing(f, member);
}

bool field_may_be_absent(const struct field *f)
{
	return (f->flags & (FIELD_OMITEMPTY | FIELD_OPTIONAL)) || is_optional_kind(f);
}

const struct field *record_field(const struct record_type *t, struct str name)
{
	for (size_t i = 0; i < t->count; i++) {
		if (str_is(name, t->fields[i].name))
			return &t->fields[i];
	}
	return NULL;
}

size_t decimal_text(char out[20], int64_t v)
{
	char digits[20];
	size_t n = 0;
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do {
		digits[n++] = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	size_t len = 0;
	if (v < 0)
		out[len++] = '-';
	while (n)
		out[len++] = digits[--n];
	return len;
}

int offsets_key_cmp(int64_t a, int64_t b)
{
	char ta[20];
	char tb[20];
	return str_cmp((struct str){ ta, decimal_text(ta, a) }, (struct str){ tb, decimal_text(tb, b) });
}

bool str_map_is_sorted(const struct str_map *m)
{
	for (size_t i = 1; i < m->count; i++) {
		if (str_cmp(m->items[i - 1].key, m->items[i].key) >= 0)
			return false;
	}
	return true;
}

bool offsets_map_is_sorted(const struct offsets_map *m)
{
	for (size_t i = 1; i < m->count; i++) {
		if (offsets_key_cmp(m->items[i - 1].key, m->items[i].key) >= 0)
			return false;
	}
	return true;
}

bool record_map_is_sorted(const struct record_list *l, const struct record_type *t)
{
	for (size_t i = 1; i < l->count; i++) {
		const struct str *before = record_item(l, t, i - 1);
		const struct str *key = record_item(l, t, i);
		if (str_cmp(*before, *key) >= 0)
			return false;
	}
	return true;
}
