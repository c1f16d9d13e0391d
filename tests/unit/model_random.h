/* Fills any record with random values by its table: shared by the tests of model/. */
#ifndef TESTS_UNIT_MODEL_RANDOM_H
#define TESTS_UNIT_MODEL_RANDOM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rand.h"
#include "model/field.h"

static inline struct str random_str(struct rand *rng, struct arena *a)
{
	static const char *const pieces[] = {
		"a", "orders", "\"", "\\", "<", "\n", "\x01", "é", "\u2028", ":", "/", " 7.", "\xf0\x9f\x98\x80", "-"
	};
	struct buf b = { 0 };
	for (uint64_t n = rand_below(rng, 6); n; n--)
		buf_puts(&b, pieces[rand_below(rng, sizeof(pieces) / sizeof(pieces[0]))]);
	const struct str s = { arena_strndup(a, (const char *)b.data, b.len), b.len };
	buf_fini(&b);
	return s;
}

static inline struct str random_bytes(struct rand *rng, struct arena *a)
{
	const size_t n = rand_below(rng, 9);
	char *p = arena_alloc(a, n);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)rand_u64(rng);
	return (struct str){ p, n };
}

static inline int64_t random_i64(struct rand *rng)
{
	const int64_t v = (int64_t)(rand_u64(rng) >> rand_below(rng, 64));
	return rand_below(rng, 3) ? v : 0;
}

static inline struct i64_list random_i64_list(struct rand *rng, struct arena *a)
{
	const size_t n = rand_below(rng, 4);
	int64_t *items = arena_alloc(a, n * sizeof(*items));
	for (size_t i = 0; i < n; i++)
		items[i] = random_i64(rng);
	return (struct i64_list){ items, n };
}

static void fill_record(const struct record_type *t, void *out, struct rand *rng, struct arena *a);

static inline void fill_record_list(const struct field *f, void *m, struct rand *rng, struct arena *a)
{
	const size_t n = rand_below(rng, 4);
	char *items = arena_zalloc(a, n * f->sub->size);
	for (size_t i = 0; i < n; i++) {
		fill_record(f->sub, items + i * f->sub->size, rng, a);
		if (f->kind == FIELD_RECORD_MAP) {
			char *key = arena_printf(a, "key%zu\xc3\xa9", i);
			*(struct str *)(void *)(items + i * f->sub->size) = str_of(key);
		}
	}
	*(struct record_list *)m = (struct record_list){ items, n };
}

static inline void fill_str_map(const struct field *f, void *m, struct rand *rng, struct arena *a)
{
	const size_t n = rand_below(rng, 4);
	struct str_pair *items = arena_zalloc(a, n * sizeof(*items));
	for (size_t i = 0; i < n; i++) {
		items[i].key = str_of(arena_printf(a, "k%zu<", i));
		if (!(f->flags & FIELD_NULL_VALUES) || rand_below(rng, 2))
			items[i].value = random_str(rng, a);
	}
	*(struct str_map *)m = (struct str_map){ items, n };
}

static inline void fill_offsets_map(void *m, struct rand *rng, struct arena *a)
{
	static const int64_t keys[] = { 0, 1, 10, 100, 2, 33 }; /* in the order of their text */
	const size_t n = rand_below(rng, 6);
	struct offsets_item *items = arena_zalloc(a, n * sizeof(*items));
	for (size_t i = 0; i < n; i++)
		items[i] = (struct offsets_item){ keys[i], random_i64_list(rng, a) };
	*(struct offsets_map *)m = (struct offsets_map){ items, n };
}

static inline void fill_value(const struct field *f, void *m, struct rand *rng, struct arena *a)
{
	static const char *const docs[] = { "null", "true", "{\"a\":[1.50,{}]}", "\"x\"", "[]", "1e400" };
	switch ((enum field_kind)f->kind) {
	case FIELD_STR: *(struct str *)m = random_str(rng, a); break;
	case FIELD_BYTES: *(struct str *)m = random_bytes(rng, a); break;
	case FIELD_JSON: *(struct str *)m = str_of(docs[rand_below(rng, sizeof(docs) / sizeof(docs[0]))]); break;
	case FIELD_BOOL: *(bool *)m = rand_below(rng, 2); break;
	case FIELD_I64: *(int64_t *)m = rand_below(rng, 2) ? random_i64(rng) : -random_i64(rng); break;
	case FIELD_U64: *(uint64_t *)m = rand_u64(rng); break;
	case FIELD_U32: *(uint32_t *)m = (uint32_t)rand_u64(rng); break;
	case FIELD_OPT_BOOL:
		*(struct opt_bool *)m = (struct opt_bool){ .value = rand_below(rng, 2), .set = true };
		break;
	case FIELD_OPT_I64: *(struct opt_i64 *)m = (struct opt_i64){ .value = random_i64(rng), .set = true }; break;
	case FIELD_OPT_U64: *(struct opt_u64 *)m = (struct opt_u64){ .value = rand_u64(rng), .set = true }; break;
	case FIELD_STR_LIST: {
		const size_t n = rand_below(rng, 4);
		struct str *items = arena_alloc(a, n * sizeof(*items));
		for (size_t i = 0; i < n; i++)
			items[i] = random_str(rng, a);
		*(struct str_list *)m = (struct str_list){ items, n };
		break;
	}
	case FIELD_I64_LIST: *(struct i64_list *)m = random_i64_list(rng, a); break;
	case FIELD_STR_MAP: fill_str_map(f, m, rng, a); break;
	case FIELD_OFFSETS_MAP: fill_offsets_map(m, rng, a); break;
	case FIELD_RECORD: fill_record(f->sub, m, rng, a); break;
	case FIELD_RECORD_PTR: {
		void *sub = arena_zalloc(a, f->sub->size);
		fill_record(f->sub, sub, rng, a);
		memcpy(m, &sub, sizeof(sub));
		break;
	}
	case FIELD_RECORD_LIST:
	case FIELD_RECORD_MAP: fill_record_list(f, m, rng, a); break;
	}
}

/* Leaves optional fields absent half of the time. `out` is zeroed first. */
static void fill_record(const struct record_type *t, void *out, struct rand *rng, struct arena *a)
{
	memset(out, 0, t->size);
	for (size_t i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		if (rand_below(rng, 2) && !(f->flags & FIELD_REQUIRED))
			continue;
		fill_value(f, (char *)out + f->offset, rng, a);
	}
}

#endif /* TESTS_UNIT_MODEL_RANDOM_H */
