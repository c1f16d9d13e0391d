/* The conversions, over a record that has a field of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/field.h"
#include "tests/unit/model_random.h"

struct inner {
	struct str action;
	struct str_list patterns;
};

struct keyed {
	struct str key;
	uint64_t seals;
};

struct all {
	struct str s, opt_s, secret, doc, bytes;
	bool b;
	int64_t i;
	uint64_t u;
	uint32_t w;
	struct opt_bool ob;
	struct opt_i64 oi;
	struct opt_u64 ou;
	struct str_list sl;
	struct i64_list il;
	struct str_map m, nm;
	struct offsets_map om;
	struct inner in;
	const struct inner *ptr;
	struct record_list list; /* struct inner */
	struct record_list map;  /* struct keyed */
};

static const struct field inner_fields[] = {
	FIELD(STR, inner, action, "action", FIELD_REQUIRED),
	FIELD(STR_LIST, inner, patterns, "patterns", FIELD_OMITEMPTY),
};
static const struct record_type inner_type = RECORD_TYPE("inner", inner, inner_fields);

static const struct field keyed_fields[] = { FIELD(U64, keyed, seals, "seals", 0) };
static const struct record_type keyed_type = RECORD_TYPE("keyed", keyed, keyed_fields);

static const struct field all_fields[] = {
	FIELD(STR, all, s, "s", 0),
	FIELD(STR, all, opt_s, "opt_s", FIELD_OPTIONAL),
	FIELD(STR, all, secret, "secret", FIELD_OMITEMPTY | FIELD_SECRET),
	FIELD(JSON, all, doc, "doc", 0),
	FIELD(BYTES, all, bytes, "bytes", FIELD_OMITEMPTY),
	FIELD(BOOL, all, b, "b", FIELD_OMITEMPTY),
	FIELD(I64, all, i, "i", FIELD_OMITEMPTY),
	FIELD(U64, all, u, "u", FIELD_OMITEMPTY),
	FIELD(U32, all, w, "w", FIELD_OMITEMPTY),
	FIELD(OPT_BOOL, all, ob, "ob", 0),
	FIELD(OPT_I64, all, oi, "oi", FIELD_NULLABLE),
	FIELD(OPT_U64, all, ou, "ou", 0),
	FIELD(STR_LIST, all, sl, "sl", FIELD_OPTIONAL | FIELD_NULLABLE),
	FIELD(I64_LIST, all, il, "il", FIELD_OMITEMPTY),
	FIELD(STR_MAP, all, m, "m", FIELD_OPTIONAL),
	FIELD(STR_MAP, all, nm, "nm", FIELD_OPTIONAL | FIELD_NULL_VALUES),
	FIELD(OFFSETS_MAP, all, om, "om", FIELD_OMITEMPTY),
	FIELD_SUB(RECORD, all, in, "in", 0, inner),
	FIELD_SUB(RECORD_PTR, all, ptr, "ptr", 0, inner),
	FIELD_SUB(RECORD_LIST, all, list, "list", FIELD_OMITEMPTY, inner),
	FIELD_SUB(RECORD_MAP, all, map, "map", FIELD_OMITEMPTY, keyed),
};
static const struct record_type all_type = RECORD_TYPE("all", all, all_fields);

static struct str text_of(const struct buf *b)
{
	return (struct str){ (const char *)b->data, b->len };
}

static void assert_json(const struct all *rec, const char *expected)
{
	struct buf out = { 0 };
	record_put_json(&all_type, rec, &out);
	assert_string_equal(buf_cstr(&out), expected);
	buf_fini(&out);
}

/* ---- JSON in ---- */

/* Everything is read into its member, and what was not said stays zero. */
static void test_json_in_reads_every_kind(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct all rec;
	struct err e;
	static const char text[] =
	    "{\"s\":\"a\\u0062\",\"opt_s\":\"\",\"secret\":\"x\",\"doc\": {\"q\" : [1.50]} "
	    ",\"bytes\":\"AP8=\",\"b\":true,"
	    "\"i\":-5,\"u\":18446744073709551615,\"w\":4294967295,\"ob\":false,\"oi\":0,\"ou\":7,\"sl\":[\"p\",\"\"],"
	    "\"il\":[3,-1],\"m\":{\"z\":\"1\",\"a\":\"2\"},\"nm\":{\"k\":null,\"j\":\"v\"},\"om\":{\"2\":[5],\"10\":[]}"
	    ","
	    "\"in\":{\"action\":\"one\"},\"ptr\":{\"patterns\":[\"q*\"],\"action\":\"two\"},"
	    "\"list\":[{\"action\":\"x\"},{\"action\":\"y\",\"patterns\":[]}],\"map\":{\"kb\":{\"seals\":2},\"ka\":{"
	    "\"seals\":1}}}";
	assert_int_equal(record_read_json(&all_type, STR_LIT(text), &a, &rec, NULL, &e), 0);
	assert_true(str_is(rec.s, "ab"));
	assert_non_null(rec.opt_s.p);
	assert_int_equal(rec.opt_s.len, 0);
	assert_true(str_is(rec.doc, "{\"q\" : [1.50]}"));
	assert_int_equal(rec.bytes.len, 2);
	assert_memory_equal(rec.bytes.p, "\0\xff", 2);
	assert_true(rec.b && rec.i == -5 && rec.u == UINT64_MAX && rec.w == UINT32_MAX);
	assert_true(rec.ob.set && !rec.ob.value && rec.oi.set && rec.oi.value == 0 && rec.ou.value == 7);
	assert_int_equal(rec.sl.count, 2);
	assert_true(rec.il.count == 2 && rec.il.items[1] == -1);
	assert_true(str_is(rec.m.items[0].key, "a") && str_is(rec.m.items[0].value, "2"));
	assert_true(str_is(rec.nm.items[1].key, "k") && !rec.nm.items[1].value.p);
	assert_true(rec.om.items[0].key == 10 && rec.om.items[1].key == 2); /* "10" before "2" */
	assert_true(str_is(rec.in.action, "one") && str_is(rec.ptr->action, "two"));
	const struct inner *list = rec.list.items;
	assert_true(rec.list.count == 2 && str_is(list[1].action, "y") && list[1].patterns.items);
	assert_null(list[0].patterns.items);
	const struct keyed *map = rec.map.items;
	assert_true(rec.map.count == 2 && str_is(map[0].key, "ka") && map[0].seals == 1);

	assert_int_equal(record_read_json(&all_type, STR_LIT("{}"), &a, &rec, NULL, &e), 0);
	struct all zero;
	memset(&zero, 0, sizeof(zero));
	assert_memory_equal(&rec, &zero, sizeof(rec));
	arena_fini(&a);
}

/* Null is absent where it is allowed, and the optional kinds remember it. A raw document may be null itself. */
static void test_json_in_null(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct all rec;
	struct err e;
	assert_int_equal(
	    record_read_json(&all_type, STR_LIT("{\"oi\":null,\"sl\":null,\"doc\":null}"), &a, &rec, NULL, &e), 0);
	assert_true(!rec.oi.set && rec.oi.null);
	assert_null(rec.sl.items);
	assert_true(str_is(rec.doc, "null"));
	arena_fini(&a);
}

static void assert_refused(const char *text, const char *code, const char *field)
{
	struct arena a = { 0 };
	struct all rec;
	struct all before;
	memset(&rec, 0x5a, sizeof(rec));
	before = rec;
	struct record_fault fault;
	struct err e = { 0 };
	assert_int_equal(record_read_json(&all_type, str_of(text), &a, &rec, &fault, &e), ERR_INVALID);
	if (strcmp(fault.code, code) != 0 || strcmp(fault.field, field) != 0)
		fail_msg("%s: %s of '%s' (%s)", text, fault.code, fault.field, e.msg);
	assert_true(strncmp(e.msg, field, strlen(field)) == 0);
	assert_true(fault.pos <= strlen(text));
	assert_memory_equal(&rec, &before, sizeof(rec)); /* out is untouched */
	assert_int_equal(record_read_json(&all_type, str_of(text), &a, &rec, NULL, NULL), ERR_INVALID);
	arena_fini(&a);
}

/* What is wrong is refused with the code and the path of the field. */
static void test_json_in_refuses_with_path(void **state)
{
	(void)state;
	static const struct {
		const char *text, *code, *field;
	} cases[] = {
		{ "", "bad_json", "" },
		{ "[]", "bad_json", "" },
		{ "null", "bad_json", "" },
		{ "{\"s\":\"a\"}x", "bad_json", "" },
		{ "{\"s\":\"a\"} {}", "bad_json", "" },
		{ "{\"s\":\"\xff\"}", "bad_json", "s" },
		{ "{\"s\":\"a\\u0000\"}", "bad_json", "s" },
		{ "{\"s\":\"\\ud800\"}", "bad_json", "s" },
		{ "{\"s\":", "bad_json", "s" },
		{ "{\"sl\":[\"a\",\"\\q\"]}", "bad_json", "sl" },
		{ "{\"sl\":[\"a\"", "bad_json", "sl" },
		{ "{\"il\":[1,2", "bad_json", "il" },
		{ "{\"m\":{\"a\":\"b\",", "bad_json", "m" },
		{ "{\"m\":{\"a\":\"\x01\"}}", "bad_json", "m.a" },
		{ "{\"om\":{\"1\":[1,]}}", "bad_json", "om.1" },
		{ "{\"list\":[{\"action\":\"a\"},", "bad_json", "list" },
		{ "{\"map\":{\"k\":{\"seals\":01}}}", "bad_json", "map.k.seals" },
		{ "{\"doc\":{\"a\":}}", "bad_json", "doc" },
		{ "{\"nope\":1}", "unknown_field", "nope" },
		{ "{\"S\":\"a\"}", "unknown_field", "S" }, /* names are exact */
		{ "{\"\\u006eo\\u0001pe\":1}", "unknown_field", "no?pe" },
		{ "{\"in\":{\"action\":\"a\",\"extra\":1}}", "unknown_field", "in.extra" },
		{ "{\"list\":[{\"action\":\"a\"},{\"x\":1}]}", "unknown_field", "list[1].x" },
		{ "{\"s\":\"a\",\"s\":\"b\"}", "bad_field", "s" },
		{ "{\"s\":\"a\",\"\\u0073\":\"b\"}", "bad_field", "s" },
		{ "{\"m\":{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}}", "bad_field", "m.a" },
		{ "{\"om\":{\"1\":[],\"1\":[]}}", "bad_field", "om.1" },
		{ "{\"map\":{\"k\":{},\"k\":{}}}", "bad_field", "map.k" },
		{ "{\"doc\":{\"a\":{\"b\":1,\"c\":2,\"b\":3}}}", "bad_field", "doc" },
		{ "{\"s\":1}", "bad_field", "s" },
		{ "{\"s\":null}", "bad_field", "s" },
		{ "{\"s\":[\"a\"]}", "bad_field", "s" },
		{ "{\"b\":1}", "bad_field", "b" },
		{ "{\"b\":\"true\"}", "bad_field", "b" },
		{ "{\"i\":\"3\"}", "bad_field", "i" },
		{ "{\"i\":3.0}", "bad_field", "i" },
		{ "{\"i\":1e2}", "bad_field", "i" },
		{ "{\"i\":9223372036854775808}", "bad_field", "i" },
		{ "{\"u\":-1}", "bad_field", "u" },
		{ "{\"u\":18446744073709551616}", "bad_field", "u" },
		{ "{\"w\":4294967296}", "bad_field", "w" },
		{ "{\"oi\":true}", "bad_field", "oi" },
		{ "{\"ou\":null}", "bad_field", "ou" },
		{ "{\"bytes\":\"AP8\"}", "bad_field", "bytes" },
		{ "{\"bytes\":\"AP9=\"}", "bad_field", "bytes" },
		{ "{\"sl\":{}}", "bad_field", "sl" },
		{ "{\"sl\":[\"a\",null]}", "bad_field", "sl[1]" },
		{ "{\"il\":[1,2.5]}", "bad_field", "il[1]" },
		{ "{\"m\":{\"a\":null}}", "bad_field", "m.a" },
		{ "{\"m\":{\"a\":5}}", "bad_field", "m.a" },
		{ "{\"m\":[]}", "bad_field", "m" },
		{ "{\"om\":{\"01\":[]}}", "bad_field", "om.01" },
		{ "{\"om\":{\"-1\":[]}}", "bad_field", "om.-1" },
		{ "{\"om\":{\"1\":5}}", "bad_field", "om.1" },
		{ "{\"in\":[]}", "bad_field", "in" },
		{ "{\"in\":{}}", "bad_field", "in.action" }, /* required */
		{ "{\"ptr\":{\"patterns\":[]}}", "bad_field", "ptr.action" },
		{ "{\"list\":[{\"action\":\"a\",\"patterns\":[\"p\",7]}]}", "bad_field", "list[0].patterns[1]" },
		{ "{\"list\":[5]}", "bad_field", "list[0]" },
		{ "{\"map\":{\"k\":5}}", "bad_field", "map.k" },
		{ "{\"map\":{\"k\":{\"seals\":-1}}}", "bad_field", "map.k.seals" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_refused(cases[i].text, cases[i].code, cases[i].field);
}

/* A key that is longer than the path is cut at a character's end, not in it. */
static void test_json_in_cuts_long_paths(void **state)
{
	(void)state;
	struct buf text = { 0 };
	buf_puts(&text, "{\"x");
	for (int i = 0; i < 200; i++)
		buf_puts(&text, "\xc3\xa9");
	buf_puts(&text, "\":1}");
	struct arena a = { 0 };
	struct all rec;
	struct record_fault fault;
	assert_int_equal(record_read_json(&all_type, text_of(&text), &a, &rec, &fault, NULL), ERR_INVALID);
	assert_true(strlen(fault.field) < RECORD_FIELD_MAX && strlen(fault.field) >= RECORD_FIELD_MAX - 3);
	assert_true(utf8_valid(fault.field, strlen(fault.field)));
	arena_fini(&a);
	buf_fini(&text);
}

/* A document nests 64 deep by itself, whatever stands around it. */
static void test_json_in_document_depth(void **state)
{
	(void)state;
	for (int depth = JSON_DEPTH_DEFAULT; depth <= JSON_DEPTH_DEFAULT + 1; depth++) {
		struct buf text = { 0 };
		buf_puts(&text, "{\"doc\":");
		for (int i = 0; i < depth; i++)
			buf_putc(&text, '[');
		for (int i = 0; i < depth; i++)
			buf_putc(&text, ']');
		buf_putc(&text, '}');
		struct arena a = { 0 };
		struct all rec;
		struct record_fault fault;
		const int rc = record_read_json(&all_type, text_of(&text), &a, &rec, &fault, NULL);
		assert_int_equal(rc, depth == JSON_DEPTH_DEFAULT ? 0 : ERR_INVALID);
		if (rc)
			assert_string_equal(fault.field, "doc");
		arena_fini(&a);
		buf_fini(&text);
	}
}

/* ---- JSON out ---- */

/* Fields come in table order; what is empty or absent is left out as its flags say. */
static void test_json_out_omits(void **state)
{
	(void)state;
	struct all rec = { 0 };
	assert_json(&rec, "{\"s\":\"\",\"in\":{\"action\":\"\"}}");
	const struct inner sub = { STR_LIT("a"), { NULL, 0 } };
	rec = (struct all){ .s = STR_LIT("<"),
		            .opt_s = STR_LIT(""),
		            .doc = STR_LIT("{ \"a\" : 1 }"),
		            .ob = { .set = true },
		            .oi = { .set = true },
		            .sl = { &rec.s, 0 },
		            .ptr = &sub };
	assert_json(&rec, "{\"s\":\"\\u003c\",\"opt_s\":\"\",\"doc\":{\"a\":1},\"ob\":false,\"oi\":0,\"sl\":[],"
	                  "\"in\":{\"action\":\"\"},\"ptr\":{\"action\":\"a\"}}");
}

/* Secrets are stored, but not shown. */
static void test_json_out_public(void **state)
{
	(void)state;
	const struct all rec = { .s = STR_LIT("x"), .secret = STR_LIT("hush") };
	struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	json_begin_object(&w);
	record_write_json_fields(&all_type, &rec, RECORD_PUBLIC, &w);
	json_field_u64(&w, "index", 4);
	json_end_object(&w);
	assert_string_equal(buf_cstr(&out), "{\"s\":\"x\",\"in\":{\"action\":\"\"},\"index\":4}");
	buf_fini(&out);
	assert_json(&rec, "{\"s\":\"x\",\"secret\":\"hush\",\"in\":{\"action\":\"\"}}");
}

/* ---- round trips ---- */

/* Random records come back from JSON and from msgpack with every byte of their JSON the same, and so does a copy after
 * its source is gone. */
static void test_round_trips(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 42);
	for (int i = 0; i < 3000; i++) {
		struct arena a = { 0 };
		struct arena b = { 0 };
		struct all rec;
		fill_record(&all_type, &rec, &rng, &a);
		rec.in.action = random_str(&rng, &a);
		struct buf json = { 0 };
		struct buf mp = { 0 };
		struct buf again = { 0 };
		record_put_json(&all_type, &rec, &json);
		struct mp_writer w = { .out = &mp };
		record_write_mp(&all_type, &rec, &w);

		struct all copy;
		record_copy(&all_type, &rec, &copy, &b);
		struct all from_json;
		struct all from_mp;
		struct err e = { 0 };
		if (record_read_json(&all_type, text_of(&json), &a, &from_json, NULL, &e))
			fail_msg("%s: %s", e.msg, buf_cstr(&json));
		record_put_json(&all_type, &from_json, &again);
		assert_string_equal(buf_cstr(&again), buf_cstr(&json));

		buf_clear(&again);
		if (record_read_mp(&all_type, mp.data, mp.len, &a, &from_mp, &e))
			fail_msg("%s", e.msg);
		record_put_json(&all_type, &from_mp, &again);
		assert_string_equal(buf_cstr(&again), buf_cstr(&json));

		arena_fini(&a); /* under ASan a copy that still points there is found */
		memset(&rec, 0x5a, sizeof(rec));
		buf_clear(&again);
		record_put_json(&all_type, &copy, &again);
		assert_string_equal(buf_cstr(&again), buf_cstr(&json));
		arena_fini(&b);
		buf_fini(&json);
		buf_fini(&mp);
		buf_fini(&again);
	}
}

/* A copy shares nothing with its source, the keys of maps included. */
static void test_copy_shares_nothing(void **state)
{
	(void)state;
	struct arena a = { 0 };
	const struct str text = STR_LIT("text");
	const int64_t numbers[] = { 7 };
	const struct str_pair pairs[] = { { text, text } };
	const struct offsets_item offsets[] = { { 1, { numbers, 1 } } };
	const struct inner sub = { text, { &text, 1 } };
	const struct keyed keyed[] = { { text, 1 } };
	const struct all rec = { .s = text,
		                 .doc = text,
		                 .bytes = text,
		                 .sl = { &text, 1 },
		                 .il = { numbers, 1 },
		                 .m = { pairs, 1 },
		                 .om = { offsets, 1 },
		                 .in = sub,
		                 .ptr = &sub,
		                 .list = { &sub, 1 },
		                 .map = { keyed, 1 } };
	struct all copy;
	record_copy(&all_type, &rec, &copy, &a);
	assert_true(copy.s.p != text.p && copy.doc.p != text.p && copy.bytes.p != text.p);
	assert_true(copy.sl.items != &text && copy.sl.items[0].p != text.p);
	assert_true(copy.il.items != numbers && copy.il.items[0] == 7);
	assert_true(copy.m.items != pairs && copy.m.items[0].key.p != text.p && copy.m.items[0].value.p != text.p);
	assert_true(copy.om.items != offsets && copy.om.items[0].offsets.items != numbers);
	assert_true(copy.in.action.p != text.p && copy.in.patterns.items != &text);
	assert_true(copy.ptr != &sub && copy.ptr->action.p != text.p);
	const struct inner *list = copy.list.items;
	assert_true(list != &sub && list->action.p != text.p && list->patterns.items[0].p != text.p);
	const struct keyed *map = copy.map.items;
	assert_true(map != keyed && map->key.p != text.p && str_is(map->key, "text") && map->seals == 1);
	assert_null(copy.opt_s.p); /* absent stays absent */
	arena_fini(&a);
}

/* Absent, empty and set are three things, in msgpack too. */
static void test_msgpack_keeps_absence(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct buf mp = { 0 };
	struct mp_writer w = { .out = &mp };
	const struct all rec = { .sl = { &rec.s, 0 }, .opt_s = STR_LIT(""), .oi = { .set = true } };
	record_write_mp(&all_type, &rec, &w);
	struct all back;
	assert_int_equal(record_read_mp(&all_type, mp.data, mp.len, &a, &back, NULL), 0);
	assert_non_null(back.sl.items);
	assert_non_null(back.opt_s.p);
	assert_true(back.oi.set && !back.ou.set && !back.ob.set);
	assert_null(back.m.items);
	assert_null(back.ptr);
	assert_null(back.doc.p);
	buf_fini(&mp);
	arena_fini(&a);
}

static int read_inner(const char *bytes, size_t len, struct err *e)
{
	struct arena a = { 0 };
	struct inner rec;
	const int rc = record_read_mp(&inner_type, bytes, len, &a, &rec, e);
	arena_fini(&a);
	return rc;
}

/* A payload fits its type exactly or is refused, with the field's name. */
static void test_msgpack_in_is_strict(void **state)
{
	(void)state;
	struct err e;
	assert_int_equal(read_inner("\x92\xa1x\xc0", 4, &e), 0);
	assert_int_equal(read_inner("\x92\xa1x\x91\xa1y", 6, &e), 0);
	assert_int_equal(read_inner("\x93\xa1x\xc0\xc0", 5, &e), ERR_CORRUPT); /* one more */
	assert_int_equal(read_inner("\x91\xa1x", 3, &e), ERR_CORRUPT);         /* one less */
	assert_int_equal(read_inner("\x92\xa1x\xc0\xc0", 5, &e), ERR_CORRUPT); /* something behind */
	assert_int_equal(read_inner("\x92\xc0\xc0", 3, &e), ERR_CORRUPT);      /* nil where a value must be */
	assert_string_equal(e.msg, "inner: inner.action: expected a string");
	assert_int_equal(read_inner("\x92\xa1x\x91\x05", 5, &e), ERR_CORRUPT);
	assert_string_equal(e.msg, "inner: inner.patterns: expected a string");
	assert_int_equal(read_inner("\x92\xa1\xff\xc0", 4, &e), ERR_CORRUPT); /* not UTF-8 */
	assert_int_equal(read_inner("\x92\xa1x\xdd\xff\xff\xff\xff", 8, &e), ERR_CORRUPT);
	assert_int_equal(read_inner("\x80", 1, &e), ERR_CORRUPT);
	assert_int_equal(read_inner("", 0, &e), ERR_CORRUPT);
}

/* Every truncation and every changed byte of a payload is answered, never followed. */
static void test_msgpack_in_survives_damage(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 77);
	struct arena a = { 0 };
	for (int i = 0; i < 200; i++) {
		struct all rec;
		fill_record(&all_type, &rec, &rng, &a);
		struct buf mp = { 0 };
		struct mp_writer w = { .out = &mp };
		record_write_mp(&all_type, &rec, &w);
		struct all back;
		for (size_t len = 0; len < mp.len; len++)
			assert_int_equal(record_read_mp(&all_type, mp.data, len, &a, &back, NULL), ERR_CORRUPT);
		for (size_t k = 0; k < mp.len; k++) {
			mp.data[k] ^= (uint8_t)(1u << rand_below(&rng, 8));
			if (record_read_mp(&all_type, mp.data, mp.len, &a, &back, NULL) == 0) {
				struct buf out = { 0 };
				record_put_json(&all_type, &back, &out); /* what was let through can be written */
				buf_fini(&out);
			}
		}
		buf_fini(&mp);
		arena_reset(&a);
	}
	arena_fini(&a);
}

/* ---- the walk ---- */

static void on_begin(void *arg, size_t count)
{
	(void)count;
	buf_putc(arg, '(');
}
static void on_end(void *arg)
{
	buf_putc(arg, ')');
}
static void on_str(void *arg, struct str s)
{
	buf_put(arg, s.p, s.len);
	buf_putc(arg, ' ');
}
static void on_bool(void *arg, bool v)
{
	buf_puts(arg, v ? "yes " : "no ");
}
static void on_i64(void *arg, int64_t v)
{
	buf_printf(arg, "i%lld ", (long long)v);
}
static void on_u64(void *arg, uint64_t v)
{
	buf_printf(arg, "u%llu ", (unsigned long long)v);
}
static void on_null(void *arg)
{
	buf_puts(arg, "nil ");
}

/* A visitor sees keys and values in table order, undecorated. */
static void test_visit_in_order(void **state)
{
	(void)state;
	static const struct record_visitor v = { .begin_object = on_begin,
		                                 .end_object = on_end,
		                                 .begin_array = on_begin,
		                                 .end_array = on_end,
		                                 .key = on_str,
		                                 .put_str = on_str,
		                                 .put_bytes = on_str,
		                                 .put_json = on_str,
		                                 .put_bool = on_bool,
		                                 .put_i64 = on_i64,
		                                 .put_u64 = on_u64,
		                                 .put_null = on_null };
	const struct str_pair pairs[] = { { STR_LIT("a"), STR_LIT("1") }, { STR_LIT("b"), { NULL, 0 } } };
	const struct keyed keyed[] = { { STR_LIT("k"), 9 } };
	const int64_t numbers[] = { -1 };
	const struct offsets_item offsets[] = { { 3, { numbers, 1 } } };
	const struct all rec = { .s = STR_LIT("x"),
		                 .bytes = STR_LIT("raw"),
		                 .doc = STR_LIT("{}"),
		                 .b = true,
		                 .u = 5,
		                 .secret = STR_LIT("hush"),
		                 .nm = { pairs, 2 },
		                 .om = { offsets, 1 },
		                 .map = { keyed, 1 } };
	struct buf out = { 0 };
	record_visit(&all_type, &rec, RECORD_PUBLIC, &v, &out);
	assert_string_equal(buf_cstr(&out),
	                    "(s x doc {} bytes raw b yes u u5 nm (a 1 b nil )om (3 (i-1 ))in (action  )map "
	                    "(k (seals u9 )))");
	buf_fini(&out);
}

/* The order of partition keys is that of their decimal text. */
static void test_offsets_order_is_textual(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 4);
	for (int i = 0; i < 20000; i++) {
		const int64_t x = random_i64(&rng);
		const int64_t y = rand_below(&rng, 4) ? random_i64(&rng) : x;
		char tx[32];
		char ty[32];
		(void)snprintf(tx, sizeof(tx), "%lld", (long long)x);
		(void)snprintf(ty, sizeof(ty), "%lld", (long long)y);
		const int want = strcmp(tx, ty);
		const int got = offsets_key_cmp(x, y);
		assert_true((want < 0) == (got < 0) && (want > 0) == (got > 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_in_reads_every_kind),
		cmocka_unit_test(test_json_in_null),
		cmocka_unit_test(test_json_in_refuses_with_path),
		cmocka_unit_test(test_json_in_cuts_long_paths),
		cmocka_unit_test(test_json_in_document_depth),
		cmocka_unit_test(test_json_out_omits),
		cmocka_unit_test(test_json_out_public),
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_copy_shares_nothing),
		cmocka_unit_test(test_msgpack_keeps_absence),
		cmocka_unit_test(test_msgpack_in_is_strict),
		cmocka_unit_test(test_msgpack_in_survives_damage),
		cmocka_unit_test(test_visit_in_order),
		cmocka_unit_test(test_offsets_order_is_textual),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
