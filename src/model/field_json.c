/* JSON in: from the pull parser straight into the struct, strictly. Lists need their length before their memory; it is
 * counted by a copy of the reader that runs ahead to the list's end, which costs one more scan of that part and keeps
 * the arena free of outgrown copies. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/base64.h"
#include "model/field.h"
#include "model/field_internal.h"
#include "model/utf8.h"

struct in {
	struct json_reader r;
	struct arena *a;
	struct record_fault *fault;
	struct err *e;
	char path[RECORD_FIELD_MAX]; /* of the value being read; NUL-terminated */
	size_t path_len;
};

/* ---- the path and what is said about it ---- */

/* Appends what fits; keys come from outside. */
static void path_append(struct in *in, struct str s)
{
	in->path_len += utf8_copy_clean(in->path + in->path_len, sizeof(in->path) - in->path_len, s);
}

/* Both return what path_pop takes. */
static size_t path_push_key(struct in *in, struct str key)
{
	const size_t before = in->path_len;
	if (before)
		path_append(in, STR_LIT("."));
	path_append(in, key);
	return before;
}

static size_t path_push_index(struct in *in, size_t i)
{
	const size_t before = in->path_len;
	char text[32];
	(void)snprintf(text, sizeof(text), "[%zu]", i); /* 22 bytes at most */
	path_append(in, str_of(text));
	return before;
}

static void path_pop(struct in *in, size_t before)
{
	in->path_len = before;
	in->path[before] = '\0';
}

static int refuse(struct in *in, const char *code, size_t pos, const char *fmt, ...) PRINTF_LIKE(4, 5);

static int refuse(struct in *in, const char *code, size_t pos, const char *fmt, ...)
{
	if (in->fault) {
		in->fault->code = code;
		in->fault->pos = pos;
		memcpy(in->fault->field, in->path, in->path_len + 1);
	}
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap); /* a cut sentence is still a sentence */
	va_end(ap);
	return err_set(in->e, ERR_INVALID, "%s%s%s", in->path, in->path_len ? ": " : "", what);
}

static int refuse_json(struct in *in)
{
	return refuse(in, "bad_json", in->r.error_pos, "not JSON: %s, at byte %zu", in->r.error, in->r.error_pos);
}

static const char *event_name(enum json_event ev)
{
	switch (ev) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "a list";
	case JSON_STRING: return "a string";
	case JSON_NUMBER: return "a number";
	case JSON_TRUE:
	case JSON_FALSE: return "a flag";
	case JSON_NULL: return "null";
	default: return "nothing";
	}
}

static int refuse_type(struct in *in, const char *expected, enum json_event got)
{
	if (got == JSON_ERROR)
		return refuse_json(in);
	return refuse(in, "bad_field", in->r.token_pos, "expected %s, got %s", expected, event_name(got));
}

static int refuse_repeated(struct in *in, size_t pos)
{
	return refuse(in, "bad_field", pos, "given more than once, at byte %zu", pos);
}

/* ---- scalars ---- */

static int read_str(struct in *in, enum json_event ev, struct str *out)
{
	if (ev != JSON_STRING)
		return refuse_type(in, "a string", ev);
	*out = json_token_str(&in->r, in->a);
	return 0;
}

static int read_bytes(struct in *in, enum json_event ev, struct str *out)
{
	struct str text;
	const int rc = read_str(in, ev, &text);
	if (rc)
		return rc;
	char *bytes = arena_alloc(in->a, text.len / 4 * 3);
	size_t len;
	if (!base64_decode(bytes, &len, text))
		return refuse(in, "bad_field", in->r.token_pos, "expected standard base64 with padding");
	*out = (struct str){ bytes, len };
	return 0;
}

static int read_bool(struct in *in, enum json_event ev, bool *out)
{
	if (ev != JSON_TRUE && ev != JSON_FALSE)
		return refuse_type(in, "true or false", ev);
	*out = ev == JSON_TRUE;
	return 0;
}

static int read_i64(struct in *in, enum json_event ev, int64_t *out)
{
	if (ev != JSON_NUMBER)
		return refuse_type(in, "an integer", ev);
	if (!json_number_i64(in->r.token, out))
		return refuse(in, "bad_field", in->r.token_pos, "expected an integer of 64 bits, got " STR_FMT "%s",
		              (int)(in->r.token.len > 40 ? 40 : in->r.token.len), in->r.token.p,
		              in->r.token.len > 40 ? "..." : "");
	return 0;
}

static int read_u64(struct in *in, enum json_event ev, uint64_t max, uint64_t *out)
{
	if (ev != JSON_NUMBER)
		return refuse_type(in, "an integer", ev);
	uint64_t v;
	if (!json_number_u64(in->r.token, &v) || v > max)
		return refuse(in, "bad_field", in->r.token_pos, "expected an integer from 0 to %llu",
		              (unsigned long long)max);
	*out = v;
	return 0;
}

/* The document keeps its text. Its nesting and its keys are its own matter: a schema may be as deep as a body. */
static int read_doc(struct in *in, enum json_event ev, struct str *out)
{
	const size_t start = in->r.token_pos;
	if (!json_skip(&in->r, ev))
		return refuse_json(in);
	const struct str doc = { (const char *)in->r.bytes + start, in->r.pos - start };
	size_t pos = 0;
	struct err why = { 0 };
	if (json_check(doc, JSON_DEPTH_DEFAULT, in->a, &pos, &why))
		return refuse(in, "bad_field", start + pos, "not an acceptable document: %s, at byte %zu", why.msg,
		              start + pos);
	*out = doc;
	return 0;
}

/* ---- lists and maps ---- */

/* How many values the array, or members the object, that was just opened holds. Where the text is broken the count ends
 * with the value that is; whoever reads on meets the error there. */
static size_t count_ahead(const struct json_reader *r)
{
	struct json_reader ahead = *r;
	size_t count = 0;
	for (;;) {
		enum json_event ev = json_next(&ahead);
		if (ev == JSON_ERROR || ev == JSON_ARRAY_END || ev == JSON_OBJECT_END)
			return count;
		if (ev == JSON_KEY)
			ev = json_next(&ahead);
		count++;
		if (!json_skip(&ahead, ev))
			return count;
	}
}

static int read_str_list(struct in *in, enum json_event ev, struct str_list *out)
{
	if (ev != JSON_ARRAY)
		return refuse_type(in, "a list of strings", ev);
	const size_t count = count_ahead(&in->r);
	struct str *items = arena_alloc(in->a, count * sizeof(*items));
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_ARRAY_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		const size_t before = path_push_index(in, i);
		const int rc = read_str(in, ev, &items[i]);
		if (rc)
			return rc;
		path_pop(in, before);
	}
	*out = (struct str_list){ items, count };
	return 0;
}

static int read_i64_list(struct in *in, enum json_event ev, struct i64_list *out)
{
	if (ev != JSON_ARRAY)
		return refuse_type(in, "a list of integers", ev);
	const size_t count = count_ahead(&in->r);
	int64_t *items = arena_alloc(in->a, count * sizeof(*items));
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_ARRAY_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		const size_t before = path_push_index(in, i);
		const int rc = read_i64(in, ev, &items[i]);
		if (rc)
			return rc;
		path_pop(in, before);
	}
	*out = (struct i64_list){ items, count };
	return 0;
}

static int pair_cmp(const void *pa, const void *pb)
{
	const struct str_pair *a = pa;
	const struct str_pair *b = pb;
	return str_cmp(a->key, b->key);
}

static int read_str_map(struct in *in, const struct field *f, enum json_event ev, struct str_map *out)
{
	if (ev != JSON_OBJECT)
		return refuse_type(in, "an object of strings", ev);
	const size_t start = in->r.token_pos;
	const size_t count = count_ahead(&in->r);
	struct str_pair *items = arena_zalloc(in->a, count * sizeof(*items));
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_OBJECT_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		items[i].key = json_token_str(&in->r, in->a);
		const size_t before = path_push_key(in, items[i].key);
		ev = json_next(&in->r);
		if (ev != JSON_NULL || !(f->flags & FIELD_NULL_VALUES)) {
			const int rc = read_str(in, ev, &items[i].value);
			if (rc)
				return rc;
		}
		path_pop(in, before);
	}
	qsort(items, count, sizeof(*items), pair_cmp);
	for (size_t i = 1; i < count; i++) {
		if (str_eq(items[i - 1].key, items[i].key)) {
			path_push_key(in, items[i].key);
			return refuse_repeated(in, start);
		}
	}
	*out = (struct str_map){ items, count };
	return 0;
}

static int offsets_item_cmp(const void *pa, const void *pb)
{
	const struct offsets_item *a = pa;
	const struct offsets_item *b = pb;
	return offsets_key_cmp(a->key, b->key);
}

static int read_offsets_map(struct in *in, enum json_event ev, struct offsets_map *out)
{
	if (ev != JSON_OBJECT)
		return refuse_type(in, "an object of lists of integers", ev);
	const size_t start = in->r.token_pos;
	const size_t count = count_ahead(&in->r);
	struct offsets_item *items = arena_zalloc(in->a, count * sizeof(*items));
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_OBJECT_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		const struct str key = json_token_str(&in->r, in->a);
		const size_t before = path_push_key(in, key);
		if (!i64_parse(key, &items[i].key) || items[i].key < 0)
			return refuse(in, "bad_field", in->r.token_pos, "the key must be a partition's number");
		const int rc = read_i64_list(in, json_next(&in->r), &items[i].offsets);
		if (rc)
			return rc;
		path_pop(in, before);
	}
	qsort(items, count, sizeof(*items), offsets_item_cmp);
	for (size_t i = 1; i < count; i++) {
		if (items[i - 1].key == items[i].key) {
			char text[20];
			path_push_key(in, (struct str){ text, decimal_text(text, items[i].key) });
			return refuse_repeated(in, start);
		}
	}
	*out = (struct offsets_map){ items, count };
	return 0;
}

/* ---- records ---- */

static int read_fields(struct in *in, const struct record_type *t, void *out);

static int read_record(struct in *in, const struct record_type *t, enum json_event ev, void *out)
{
	if (ev != JSON_OBJECT)
		return refuse_type(in, "an object", ev);
	return read_fields(in, t, out);
}

static int read_record_ptr(struct in *in, const struct record_type *t, enum json_event ev, void *member)
{
	void *rec = arena_zalloc(in->a, t->size);
	const int rc = read_record(in, t, ev, rec);
	if (rc == 0)
		field_store_ptr(member, rec);
	return rc;
}

static int read_record_list(struct in *in, const struct record_type *t, enum json_event ev, struct record_list *out)
{
	if (ev != JSON_ARRAY)
		return refuse_type(in, "a list of objects", ev);
	const size_t count = count_ahead(&in->r);
	char *items = arena_zalloc(in->a, count * t->size);
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_ARRAY_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		const size_t before = path_push_index(in, i);
		const int rc = read_record(in, t, ev, items + i * t->size);
		if (rc)
			return rc;
		path_pop(in, before);
	}
	*out = (struct record_list){ items, count };
	return 0;
}

static int keyed_record_cmp(const void *pa, const void *pb)
{
	const struct str *a = pa;
	const struct str *b = pb;
	return str_cmp(*a, *b);
}

static int read_record_map(struct in *in, const struct record_type *t, enum json_event ev, struct record_list *out)
{
	if (ev != JSON_OBJECT)
		return refuse_type(in, "an object of objects", ev);
	const size_t start = in->r.token_pos;
	const size_t count = count_ahead(&in->r);
	char *items = arena_zalloc(in->a, count * t->size);
	for (size_t i = 0; (ev = json_next(&in->r)) != JSON_OBJECT_END; i++) {
		if (ev == JSON_ERROR)
			return refuse_json(in);
		assert(i < count);
		struct str *key = (struct str *)(void *)(items + i * t->size);
		*key = json_token_str(&in->r, in->a);
		const size_t before = path_push_key(in, *key);
		const int rc = read_record(in, t, json_next(&in->r), key);
		if (rc)
			return rc;
		path_pop(in, before);
	}
	qsort(items, count, t->size, keyed_record_cmp);
	const struct record_list list = { items, count };
	for (size_t i = 1; i < count; i++) {
		const struct str *before = record_item(&list, t, i - 1);
		const struct str *key = record_item(&list, t, i);
		if (str_eq(*before, *key)) {
			path_push_key(in, *key);
			return refuse_repeated(in, start);
		}
	}
	*out = list;
	return 0;
}

/* Null where it is allowed: the value stays absent, and the optional kinds remember that null was said. */
static int read_null(struct in *in, const struct field *f, void *m)
{
	if (!(f->flags & FIELD_NULLABLE))
		return refuse(in, "bad_field", in->r.token_pos, "must not be null");
	if (f->kind == FIELD_OPT_BOOL)
		((struct opt_bool *)m)->null = true;
	else if (f->kind == FIELD_OPT_I64)
		((struct opt_i64 *)m)->null = true;
	else if (f->kind == FIELD_OPT_U64)
		((struct opt_u64 *)m)->null = true;
	return 0;
}

static int read_opt_bool(struct in *in, enum json_event ev, struct opt_bool *out)
{
	const int rc = read_bool(in, ev, &out->value);
	out->set = rc == 0;
	return rc;
}

static int read_opt_i64(struct in *in, enum json_event ev, struct opt_i64 *out)
{
	const int rc = read_i64(in, ev, &out->value);
	out->set = rc == 0;
	return rc;
}

static int read_opt_u64(struct in *in, enum json_event ev, struct opt_u64 *out)
{
	const int rc = read_u64(in, ev, UINT64_MAX, &out->value);
	out->set = rc == 0;
	return rc;
}

static int read_u32(struct in *in, enum json_event ev, uint32_t *out)
{
	uint64_t v = 0;
	const int rc = read_u64(in, ev, UINT32_MAX, &v);
	*out = (uint32_t)v;
	return rc;
}

static int read_value(struct in *in, const struct field *f, void *m)
{
	const enum json_event ev = json_next(&in->r);
	if (ev == JSON_NULL && f->kind != FIELD_JSON)
		return read_null(in, f, m);
	switch ((enum field_kind)f->kind) {
	case FIELD_STR: return read_str(in, ev, m);
	case FIELD_BYTES: return read_bytes(in, ev, m);
	case FIELD_JSON: return read_doc(in, ev, m);
	case FIELD_BOOL: return read_bool(in, ev, m);
	case FIELD_I64: return read_i64(in, ev, m);
	case FIELD_U64: return read_u64(in, ev, UINT64_MAX, m);
	case FIELD_U32: return read_u32(in, ev, m);
	case FIELD_OPT_BOOL: return read_opt_bool(in, ev, m);
	case FIELD_OPT_I64: return read_opt_i64(in, ev, m);
	case FIELD_OPT_U64: return read_opt_u64(in, ev, m);
	case FIELD_STR_LIST: return read_str_list(in, ev, m);
	case FIELD_I64_LIST: return read_i64_list(in, ev, m);
	case FIELD_STR_MAP: return read_str_map(in, f, ev, m);
	case FIELD_OFFSETS_MAP: return read_offsets_map(in, ev, m);
	case FIELD_RECORD: return read_record(in, f->sub, ev, m);
	case FIELD_RECORD_PTR: return read_record_ptr(in, f->sub, ev, m);
	case FIELD_RECORD_LIST: return read_record_list(in, f->sub, ev, m);
	case FIELD_RECORD_MAP: return read_record_map(in, f->sub, ev, m);
	}
	assert(!"field kind");
	return ERR_INVALID;
}

static int check_required(struct in *in, const struct record_type *t, uint32_t seen)
{
	for (size_t i = 0; i < t->count; i++) {
		if (t->fields[i].flags & FIELD_REQUIRED && !(seen >> i & 1)) {
			path_push_key(in, str_of(t->fields[i].name));
			return refuse(in, "bad_field", in->r.token_pos, "is required");
		}
	}
	return 0;
}

/* The members of an object that was just opened, up to and with its end. */
static int read_fields(struct in *in, const struct record_type *t, void *out)
{
	uint32_t seen = 0;
	for (;;) {
		const enum json_event ev = json_next(&in->r);
		if (ev == JSON_ERROR)
			return refuse_json(in);
		if (ev == JSON_OBJECT_END)
			return check_required(in, t, seen);
		const size_t pos = in->r.token_pos;
		const struct str name = json_token_str(&in->r, in->a);
		const size_t before = path_push_key(in, name);
		const struct field *f = record_field(t, name);
		if (!f)
			return refuse(in, "unknown_field", pos, "unknown field");
		const uint32_t bit = 1u << (f - t->fields);
		if (seen & bit)
			return refuse_repeated(in, pos);
		seen |= bit;
		const int rc = read_value(in, f, field_of(out, f));
		if (rc)
			return rc;
		path_pop(in, before);
	}
}

int record_read_json(const struct record_type *t, struct str json, struct arena *a, void *out,
                     struct record_fault *fault, struct err *e)
{
	assert(t->count <= RECORD_FIELDS_MAX);
	struct in in = { .a = a, .fault = fault, .e = e };
	json_reader_init(&in.r, json, JSON_DEPTH_DEFAULT + RECORD_NESTING_MAX);
	in.r.refuse_nul = true;
	const enum json_event ev = json_next(&in.r);
	if (ev == JSON_ERROR)
		return refuse_json(&in);
	if (ev != JSON_OBJECT)
		return refuse(&in, "bad_json", in.r.token_pos, "expected an object, got %s", event_name(ev));
	void *rec = arena_zalloc(a, t->size);
	const int rc = read_fields(&in, t, rec);
	if (rc)
		return rc;
	if (json_next(&in.r) != JSON_END)
		return refuse_json(&in);
	memcpy(out, rec, t->size);
	return 0;
}
