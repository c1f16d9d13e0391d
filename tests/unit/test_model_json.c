/* The parser's events and positions, numbers, escapes, whole-document checks, and the writer. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "model/json.h"

/* ---- reading ---- */

/* Events as text: one letter each, with the token of keys, strings and numbers behind it. */
static void trace(struct buf *out, const char *text)
{
	static const char letters[] = "!{}[]ksntf0.";
	struct json_reader r;
	json_reader_init(&r, str_of(text), 0);
	for (;;) {
		const enum json_event ev = json_next(&r);
		buf_putc(out, letters[ev]);
		if (ev == JSON_KEY || ev == JSON_STRING || ev == JSON_NUMBER) {
			buf_put(out, r.token.p, r.token.len);
			buf_putc(out, ' ');
		}
		if (ev == JSON_ERROR)
			buf_printf(out, "%zu", r.error_pos);
		if (ev == JSON_ERROR || ev == JSON_END)
			return;
	}
}

static void assert_trace(const char *text, const char *expected)
{
	struct buf out = { 0 };
	trace(&out, text);
	assert_string_equal(buf_cstr(&out), expected);
	buf_fini(&out);
}

/* Every event comes once, in order, with its own text, and a number keeps its spelling. */
static void test_events_in_order(void **state)
{
	(void)state;
	assert_trace("{\"a\":[1,-0.50E+2,\"x\\n\"],\"b\":{},\"c\":[],\"d\":true,\"e\":false,\"f\":null}",
	             "{ka [n1 n-0.50E+2 sx\\n ]kb {}kc []kd tke fkf 0}.");
	assert_trace(" \t\r\n[ { } , [ ] ] \n", "[{}[]].");
	assert_trace("\"\"", "s .");
	assert_trace("12", "n12 .");
}

/* An error names the offset of the byte that is wrong. */
static void test_errors_have_positions(void **state)
{
	(void)state;
	assert_trace("", "!0");
	assert_trace("  ", "!2");
	assert_trace("[1,]", "[n1 !3");
	assert_trace("[1 2]", "[n1 !3");
	assert_trace("{\"a\" 1}", "{!5");
	assert_trace("{\"a\":1,}", "{ka n1 !7");
	assert_trace("{a:1}", "{!1");
	assert_trace("[01]", "[!1");
	assert_trace("[-]", "[!2");
	assert_trace("[1.]", "[!3");
	assert_trace("[1e+]", "[!4");
	assert_trace("[\"a\tb\"]", "[!3");
	assert_trace("[\"a\\x\"]", "[!3");
	assert_trace("[\"\\ud800\"]", "[!2");
	assert_trace("[\"\\udc00\\ud800\"]", "[!2");
	assert_trace("[\"\\udc00\\udc01\"]", "[!2");
	assert_trace("[\"\\ud800\\ud801\"]", "[!2");
	assert_trace("[\"\\ud800\\ue000\"]", "[!2");
	assert_trace("[\"ab\xff\"]", "[!4");
	assert_trace("[\"\xc0\x80\"]", "[!2");
	assert_trace("[\"abc", "[!1");
	assert_trace("[1]x", "[n1 ]!3");
	assert_trace("[nul]", "[!1");
	assert_trace("[1}", "[n1 !2");
	assert_trace("\xef\xbb\xbf{}", "!0");
}

/* \u0000 is JSON, and refused for those who ask. */
static void test_nul_is_refused_on_request(void **state)
{
	(void)state;
	struct json_reader r;
	json_reader_init(&r, STR_LIT("\"a\\u0000\""), 0);
	assert_int_equal(json_next(&r), JSON_STRING);
	json_reader_init(&r, STR_LIT("\"a\\u0000\""), 0);
	r.refuse_nul = true;
	assert_int_equal(json_next(&r), JSON_ERROR);
	assert_int_equal(r.error_pos, 2);
}

/* The limit counts open containers; exactly that many pass, whichever kind. */
static void test_depth_limit_is_exact(void **state)
{
	(void)state;
	for (size_t limit = 1; limit <= JSON_DEPTH_MAX; limit += 37) {
		for (size_t over = 0; over < 2; over++) {
			const size_t depth = limit + over;
			struct buf text = { 0 };
			for (size_t i = 0; i < depth; i++)
				buf_puts(&text, i % 2 ? "{\"k\":" : "[");
			buf_puts(&text, "1");
			for (size_t i = depth; i-- > 0;)
				buf_puts(&text, i % 2 ? "}" : "]");
			struct json_reader r;
			json_reader_init(&r, (struct str){ (const char *)text.data, text.len }, limit);
			enum json_event ev;
			do {
				ev = json_next(&r);
			} while (ev != JSON_ERROR && ev != JSON_END);
			assert_int_equal(ev, over ? JSON_ERROR : JSON_END);
			buf_fini(&text);
		}
	}
}

/* json_skip passes one whole value and leaves the reader at the next. */
static void test_skip_passes_one_value(void **state)
{
	(void)state;
	struct json_reader r;
	json_reader_init(&r, STR_LIT("{\"a\": {\"x\":[1,{\"y\":[]}]} ,\"b\":\"z\"}"), 0);
	assert_int_equal(json_next(&r), JSON_OBJECT);
	assert_int_equal(json_next(&r), JSON_KEY);
	enum json_event ev = json_next(&r);
	const size_t start = r.token_pos;
	assert_true(json_skip(&r, ev));
	assert_int_equal(start, 6);
	assert_int_equal(r.pos, 24);
	assert_int_equal(json_next(&r), JSON_KEY);
	assert_true(str_is(r.token, "b"));
	ev = json_next(&r);
	assert_true(json_skip(&r, ev));
	assert_int_equal(json_next(&r), JSON_OBJECT_END);
	assert_int_equal(json_next(&r), JSON_END);
	json_reader_init(&r, STR_LIT("[[1,2"), 0);
	assert_int_equal(json_next(&r), JSON_ARRAY);
	assert_false(json_skip(&r, JSON_ARRAY));
}

static void assert_unescaped(const char *json, const char *expected, size_t len)
{
	struct json_reader r;
	json_reader_init(&r, str_of(json), 0);
	assert_int_equal(json_next(&r), JSON_STRING);
	char out[256];
	assert_int_equal(json_unescape(out, r.token), len);
	assert_memory_equal(out, expected, len);
}

/* Every escape becomes its bytes; pairs of surrogates become one character. */
static void test_unescape_all_forms(void **state)
{
	(void)state;
	assert_unescaped("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
	assert_unescaped("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00z\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", 11);
	assert_unescaped("\"\\u0000\\uffff\\udbff\\udfff\"", "\0\xef\xbf\xbf\xf4\x8f\xbf\xbf", 8);
}

/* Each code point written as an escape comes back as the UTF-8 of a slow encoder. */
static void test_unescape_each_code_point(void **state)
{
	(void)state;
	for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 97) {
		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		char json[32];
		if (c < 0x10000)
			(void)snprintf(json, sizeof(json), "\"\\u%04x\"", (unsigned)c);
		else
			(void)snprintf(json, sizeof(json), "\"\\u%04X\\u%04x\"",
			               (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
			               (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
		/* The oracle: bits taken off from the low end, then the lead byte that says how many there were. */
		char want[5] = { 0 };
		size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		uint32_t left = c;
		for (size_t i = n; i-- > 1; left /= 64)
			want[i] = (char)(128 + left % 64);
		static const int lead[] = { 0, 0, 192, 224, 240 };
		want[0] = (char)(lead[n] + (int)left);
		assert_unescaped(json, want, n);
	}
}

/* Integers are read exactly as strtoll and strtoull read them, and only from integer spellings. */
static void test_integers_against_libc(void **state)
{
	(void)state;
	static const char *const refused[] = { "3.0",
		                               "1e2",
		                               "-1.5",
		                               "9223372036854775808",
		                               "1E0",
		                               "0.0",
		                               "-9223372036854775809",
		                               "99999999999999999999999" };
	int64_t i;
	uint64_t u;
	for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++)
		assert_false(json_number_i64(str_of(refused[k]), &i));
	assert_true(json_number_i64(STR_LIT("-0"), &i) && i == 0);
	assert_true(json_number_u64(STR_LIT("-0"), &u) && u == 0);
	assert_false(json_number_u64(STR_LIT("-1"), &u));
	assert_false(json_number_u64(STR_LIT("18446744073709551616"), &u));
	assert_true(json_number_u64(STR_LIT("18446744073709551615"), &u) && u == UINT64_MAX);
	assert_true(json_number_i64(STR_LIT("-9223372036854775808"), &i) && i == INT64_MIN);
	struct rand rng;
	rand_seed(&rng, 7);
	for (int k = 0; k < 20000; k++) {
		char text[32];
		const uint64_t v = rand_u64(&rng) >> rand_below(&rng, 64);
		(void)snprintf(text, sizeof(text), "%s%" PRIu64, rand_below(&rng, 2) ? "-" : "", v);
		struct json_reader r;
		json_reader_init(&r, str_of(text), 0);
		assert_int_equal(json_next(&r), JSON_NUMBER);
		errno = 0;
		const long long want = strtoll(text, NULL, 10);
		const bool fits = errno == 0;
		assert_true(json_number_i64(r.token, &i) == fits);
		if (fits)
			assert_true(i == want);
		if (text[0] != '-') {
			assert_true(json_number_u64(r.token, &u));
			assert_true(u == strtoull(text, NULL, 10));
		}
	}
}

/* ---- whole documents ---- */

static int check(const char *text, size_t *pos)
{
	struct arena a = { 0 };
	struct err e = { 0 };
	const int rc = json_check(str_of(text), 0, &a, pos, &e);
	assert_int_equal(rc, e.code);
	arena_fini(&a);
	return rc;
}

/* A key may come again in another object, but not twice in one, however it is spelled. */
static void test_check_finds_repeated_keys(void **state)
{
	(void)state;
	size_t pos = 0;
	assert_int_equal(check("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}]}", NULL), 0);
	assert_int_equal(check("{\"a\":1,\"b\":2,\"a\":3}", &pos), ERR_INVALID);
	assert_int_equal(pos, 13);
	assert_int_equal(check("{\"x\":[{\"abc\":1,\"\\u0061b\\u0063\":2}]}", &pos), ERR_INVALID);
	assert_int_equal(pos, 15);
	assert_int_equal(check("{\"\":1,\"\":2}", &pos), ERR_INVALID);
	assert_int_equal(check("{\"a\":1,\"b\":{\"c\":1,\"d\":{}},\"a\":1}", &pos), ERR_INVALID);
	assert_int_equal(check("[\"\\u0000\"]", &pos), ERR_INVALID);
	assert_int_equal(check("[1,]", &pos), ERR_INVALID);
	assert_int_equal(pos, 3);
	assert_int_equal(check("true", NULL), 0);
}

/* Against a slow oracle: random nested objects with few keys, compared pairwise while they are made. */
static bool make_document(struct rand *rng, struct buf *out, int depth)
{
	bool unique = true;
	const uint64_t n = rand_below(rng, 5);
	uint64_t used[5];
	buf_putc(out, '{');
	for (uint64_t i = 0; i < n; i++) {
		used[i] = rand_below(rng, 8);
		for (uint64_t k = 0; k < i; k++)
			unique = unique && used[k] != used[i];
		buf_printf(out, rand_below(rng, 2) ? "%s\"k%" PRIu64 "\":" : "%s\"\\u006b%" PRIu64 "\":", i ? "," : "",
		           used[i]);
		if (depth < 4 && rand_below(rng, 3) == 0)
			unique = make_document(rng, out, depth + 1) && unique;
		else
			buf_puts(out, "[0]");
	}
	buf_putc(out, '}');
	return unique;
}

static void test_check_against_pairwise(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 11);
	int repeated = 0;
	for (int i = 0; i < 5000; i++) {
		struct buf text = { 0 };
		const bool unique = make_document(&rng, &text, 0);
		assert_int_equal(check(buf_cstr(&text), NULL), unique ? 0 : ERR_INVALID);
		repeated += !unique;
		buf_fini(&text);
	}
	assert_in_range(repeated, 500, 4500); /* both answers were asked for */
}

static void assert_compact(const char *doc, bool escape, const char *expected)
{
	struct buf out = { 0 };
	json_compact(&out, str_of(doc), escape);
	assert_string_equal(buf_cstr(&out), expected);
	buf_fini(&out);
}

/* White space goes, strings keep their bytes, and Go's three characters are escaped on request. */
static void test_compact_keeps_strings(void **state)
{
	(void)state;
	assert_compact(" { \"a b\" : [ 1 , 2.50 ] ,\n\t\"\\\" \" : \"<x>&\" } ", false,
	               "{\"a b\":[1,2.50],\"\\\" \":\"<x>&\"}");
	assert_compact("{ \"<\": \"\\\\\" , \"b\":\"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\" }", true,
	               "{\"\\u003c\":\"\\\\\",\"b\":\"\\u2028\\u2029\xe2\x80\xaa\"}");
	assert_compact("\">&\"", true, "\"\\u003e\\u0026\"");
	assert_compact("true", true, "true");
}

/* ---- writing ---- */

/* Strings come out as Go's encoding/json writes them (texts taken from its behaviour). */
static void test_strings_as_go_writes_them(void **state)
{
	(void)state;
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
		{ STR_LIT("plain"), "\"plain\"" },
		{ STR_LIT(""), "\"\"" },
		{ STR_LIT("\"\\/"), "\"\\\"\\\\/\"" },
		{ STR_LIT("\b\f\n\r\t\x01\x1f\x7f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"" },
		{ STR_LIT("a\0b"), "\"a\\u0000b\"" },
		{ STR_LIT("<a href=\"x\">&</a>"), "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\u003c/a\\u003e\"" },
		{ STR_LIT("\xe2\x80\xa8\xe2\x80\xa9 \xe2\x80\xa7"), "\"\\u2028\\u2029 \xe2\x80\xa7\"" },
		{ STR_LIT("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
		{ STR_LIT("a\xff\xfe"), "\"a\\ufffd\\ufffd\"" },
		{ STR_LIT("\xe2\x80"), "\"\\ufffd\\ufffd\"" },
		{ STR_LIT("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = { 0 };
		struct json_writer w = { .out = &out };
		json_put_str(&w, cases[i].in);
		assert_string_equal(buf_cstr(&out), cases[i].out);
		buf_fini(&out);
	}
}

/* Commas come by themselves at every level. */
static void test_writer_places_commas(void **state)
{
	(void)state;
	struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	json_begin_object(&w);
	json_field_u64(&w, "u", UINT64_MAX);
	json_field_i64(&w, "i", INT64_MIN);
	json_field_bool(&w, "t", true);
	json_field_cstr(&w, "s", "x");
	json_field_cstr(&w, "none", NULL);
	json_key(&w, "a");
	json_begin_array(&w);
	json_begin_array(&w);
	json_end_array(&w);
	json_put_null(&w);
	json_begin_object(&w);
	json_end_object(&w);
	json_put_raw(&w, STR_LIT("{\"r\":1}"));
	json_put_doc(&w, STR_LIT(" [ \"<\" ] "));
	json_put_base64(&w, STR_LIT("\x00\xff\x10"));
	json_end_array(&w);
	json_key_str(&w, STR_LIT("k<"));
	json_put_bool(&w, false);
	json_end_object(&w);
	assert_string_equal(buf_cstr(&out),
	                    "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"t\":true,\"s\":\"x\","
	                    "\"none\":\"\",\"a\":[[],null,{},{\"r\":1},[\"\\u003c\"],\"AP8Q\"],"
	                    "\"k\\u003c\":false}");
	buf_fini(&out);
}

/* Any bytes whatever become a string that the parser reads back; valid UTF-8 comes back unchanged. */
static void test_writer_output_is_json(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 3);
	for (int i = 0; i < 20000; i++) {
		char in[24];
		const size_t len = rand_below(&rng, sizeof(in));
		for (size_t k = 0; k < len; k++)
			in[k] = (char)(rand_below(&rng, 3) ? rand_below(&rng, 128) : rand_u64(&rng));
		struct buf out = { 0 };
		struct json_writer w = { .out = &out };
		json_put_str(&w, (struct str){ in, len });
		struct json_reader r;
		json_reader_init(&r, (struct str){ (const char *)out.data, out.len }, 0);
		assert_int_equal(json_next(&r), JSON_STRING);
		char back[256];
		const size_t n = json_unescape(back, r.token);
		if (utf8_valid(in, len)) {
			assert_int_equal(n, len);
			assert_memory_equal(back, in, len);
		}
		assert_int_equal(json_next(&r), JSON_END);
		buf_fini(&out);
	}
}

/* Doubles are JSON, read back the same, and short ones look short. */
static void test_doubles_round_trip(void **state)
{
	(void)state;
	static const struct {
		double v;
		const char *text;
	} cases[] = { { 0, "0" },          { 0.1, "0.1" }, { -2.5, "-2.5" },
		      { 1e300, "1e+300" }, { 3, "3" },     { 5e-324, "5e-324" } };
	struct buf out = { 0 };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_writer w = { .out = &out };
		buf_clear(&out);
		json_put_double(&w, cases[i].v);
		assert_string_equal(buf_cstr(&out), cases[i].text);
	}
	struct rand rng;
	rand_seed(&rng, 5);
	for (int i = 0; i < 5000; i++) {
		const uint64_t bits = rand_u64(&rng);
		double v;
		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		struct json_writer w = { .out = &out };
		buf_clear(&out);
		json_put_double(&w, v);
		assert_true(strtod(buf_cstr(&out), NULL) == v);
		struct json_reader r;
		json_reader_init(&r, (struct str){ (const char *)out.data, out.len }, 0);
		assert_int_equal(json_next(&r), JSON_NUMBER);
		assert_int_equal(json_next(&r), JSON_END);
	}
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_in_order),           cmocka_unit_test(test_errors_have_positions),
		cmocka_unit_test(test_nul_is_refused_on_request), cmocka_unit_test(test_depth_limit_is_exact),
		cmocka_unit_test(test_skip_passes_one_value),     cmocka_unit_test(test_unescape_all_forms),
		cmocka_unit_test(test_unescape_each_code_point),  cmocka_unit_test(test_integers_against_libc),
		cmocka_unit_test(test_check_finds_repeated_keys), cmocka_unit_test(test_check_against_pairwise),
		cmocka_unit_test(test_compact_keeps_strings),     cmocka_unit_test(test_strings_as_go_writes_them),
		cmocka_unit_test(test_writer_places_commas),      cmocka_unit_test(test_writer_output_is_json),
		cmocka_unit_test(test_doubles_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
