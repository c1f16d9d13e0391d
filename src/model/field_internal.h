/* model/field_internal.h - what the conversions of field.h share. Tables nest at most RECORD_NESTING_MAX deep, so the
 * conversions recurse by table, never by input. */
#ifndef MODEL_FIELD_INTERNAL_H
#define MODEL_FIELD_INTERNAL_H

#include <string.h>

#include "model/field.h"

#define RECORD_NESTING_MAX 8 /* containers around a raw document or a value, by the tables */

static inline const void *field_at(const void *rec, const struct field *f)
{
	return (const char *)rec + f->offset;
}

static inline void *field_of(void *rec, const struct field *f)
{
	return (char *)rec + f->offset;
}

/* A RECORD_PTR member is a pointer to some struct; its value moves by memcpy, since no `void *` is stored there. */
static inline const void *field_load_ptr(const void *member)
{
	const void *p;
	memcpy(&p, member, sizeof(p));
	return p;
}

static inline void field_store_ptr(void *member, const void *p)
{
	memcpy(member, &p, sizeof(p));
}

static inline const void *record_item(const struct record_list *l, const struct record_type *t, size_t i)
{
	return (const char *)l->items + i * t->size;
}

/* Left out of JSON, nil in msgpack. */
bool field_is_absent(const struct field *f, const void *member);
/* May msgpack say nil here? */
bool field_may_be_absent(const struct field *f);

/* Maps are kept sorted with each key once; makers answer for that, writers rely on it. */
bool str_map_is_sorted(const struct str_map *m);
bool offsets_map_is_sorted(const struct offsets_map *m);
bool record_map_is_sorted(const struct record_list *l, const struct record_type *t);

/* Decimal text of an integer, no NUL; `out` holds 20 bytes. Returns its length. */
size_t decimal_text(char out[20], int64_t v);

#endif /* MODEL_FIELD_INTERNAL_H */
