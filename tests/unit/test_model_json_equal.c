/* Equality of JSON documents as values: its frozen meaning, and an oracle that is slow and plain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "model/json.h"
#include "model/json_equal.h"

static bool equal(const char *x, const char *y)
{
	struct arena a = { 0 };
	const bool there = json_equal(str_of(x), str_of(y), &a);
	const bool back = json_equal(str_of(y), str_of(x), &a);
	if (there != back)
		fail_msg("not symmetric: %s and %s", x, y);
	if (!json_equal(str_of(x), str_of(x), &a) || !json_equal(str_of(y), str_of(y), &a))
		fail_msg("not equal to themselves: %s and %s", x, y);
	arena_fini(&a);
	return there;
}

static void same(const char *x, const char *y)
{
	if (!equal(x, y))
		fail_msg("said to differ: %s and %s", x, y);
}

static void differ(const char *x, const char *y)
{
	if (equal(x, y))
		fail_msg("said to be equal: %s and %s", x, y);
}

/* Numbers are compared by exact decimal value, however long and however spelled. */
static void test_numbers_compare_exactly(void **state)
{
	(void)state;
	same("10", "1e1");
	same("10", "1.0E+1");
	same("10", "100e-1");
	same("0", "-0");
	same("0.00", "-0e5");
	same("0e7", "0e-7");
	same("-1.50", "-15e-1");
	same("1e0000000000000000000000000001", "10");
	same("123456789012345678901234567890", "1.2345678901234567890123456789e29");
	same("0.000001", "1e-6");
	same("10.01e2", "1001");
	differ("1", "-1");
	differ("1", "10");
	differ("0.1", "0.10000000000000000000000001");
	differ("9007199254740993", "9007199254740992");
	differ("9007199254740993.0", "9007199254740992.0");
	differ("1e400", "1e401");
	differ("1", "\"1\"");
	differ("1", "true");
}

/* An exponent beyond an int32 leaves only the spelling of that number; the rest of the document is still a value. */
static void test_exponents_beyond_int32(void **state)
{
	(void)state;
	same("1e2147483647", "10e2147483646");
	same("1e-2147483648", "0.1e-2147483647");
	differ("1e2147483648", "10e2147483647");
	differ("1e-2147483649", "10e-2147483650");
	differ("0e2147483648", "0");
	differ("1e99999999999999999999999999999999", "1e099999999999999999999999999999999");
	same("[1e99999999999,1]", " [ 1e99999999999 , 1.0 ]");
	same("{\"a\":1e2147483648,\"b\":2}", "{\"b\":2,\"a\":1e2147483648}");
	same("{\"a\":1e2147483648,\"a\":2}", "{\"a\":2.0}");
	int order;
	assert_false(json_number_order(str_of("1e2147483648"), str_of("1"), &order));
	assert_false(json_number_order(str_of("1"), str_of("1e-2147483649"), &order));
}

/* Key order and white space do not count; of a repeated key the last value does; escapes are undone before comparing.
 */
static void test_objects_and_strings(void **state)
{
	(void)state;
	same("{\"a\":1,\"b\":[2,{}]}", " { \"b\" : [ 2 , { } ] ,\n\t\"a\" : 1 } ");
	same("{\"a\":1,\"a\":2}", "{\"a\":2}");
	same("{\"a\":1,\"b\":0,\"a\":{\"x\":[]}}", "{\"a\":{\"x\":[]},\"b\":0}");
	same("{\"\\u0061\":1,\"a\":2}", "{\"a\":2}");
	same("\"\\u00e9\\n\\ud83d\\ude00\\/\"", "\"\xc3\xa9\\u000a\xf0\x9f\x98\x80/\"");
	same("\"a\\u0000b\"", "\"\\u0061\\u0000b\"");
	differ("{\"a\":1,\"a\":2}", "{\"a\":1}");
	differ("{\"a\":1}", "{\"b\":1}");
	differ("{\"a\":1}", "{\"a\":1,\"b\":1}");
	differ("{\"a\":{\"b\":1}}", "{\"a\":{\"c\":1}}");
	differ("{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}");
	differ("\"a\"", "\"A\"");
	differ("\"a\\u0000b\"", "\"a\\u0000c\"");
	differ("\"\"", "\"\\u0000\"");
}

/* Arrays are ordered, and nesting counts. */
static void test_arrays_and_shapes(void **state)
{
	(void)state;
	same("[1,[2,[3]],{}]", "[1.0,[2e0,[30e-1]],{ }]");
	same("true", " true ");
	differ("[1,2]", "[2,1]");
	differ("[1]", "[1,1]");
	differ("[1,1]", "[1]");
	differ("[[1],2]", "[[1,2]]");
	differ("[[],[]]", "[[[]]]");
	differ("[]", "{}");
	differ("[{}]", "[[]]");
	differ("null", "false");
	differ("true", "false");
	differ("[null]", "[]");
}

/* Where a side is not one JSON value, only the bytes count. */
static void test_not_json_compares_by_bytes(void **state)
{
	(void)state;
	same("", "");
	same("{\"a\":", "{\"a\":");
	same("\"\xff\"", "\"\xff\"");
	differ("", " ");
	differ("1 2", "1  2");
	differ("{\"a\":1", " {\"a\":1");
	differ("1", "1 1");
	differ("[1,]", "[1]");
	differ("01", "1");
	differ("\"\\ud800\"", " \"\\ud800\"");
	differ("1}", "1");
}

/* A value of 64 open containers is compared, one of 65 is not a value here. */
static void test_depth_has_a_limit(void **state)
{
	(void)state;
	for (unsigned depth = JSON_DEPTH_DEFAULT; depth <= JSON_DEPTH_DEFAULT + 1; depth++) {
		struct buf packed = { 0 };
		struct buf spaced = { 0 };
		for (unsigned i = 0; i < 2 * depth; i++) {
			buf_puts(&packed, i < depth ? "[" : "]");
			buf_puts(&spaced, i < depth ? " [" : " ]");
		}
		assert_int_equal(equal(buf_cstr(&packed), buf_cstr(&spaced)), depth == JSON_DEPTH_DEFAULT);
		buf_fini(&packed);
		buf_fini(&spaced);
	}
}

/* ---- an oracle: every question is answered by reading the text again ---- */

struct value {
	struct str text;
	enum json_event kind;
	bool escaped;
};

/* The n-th value of a container, with its key; false: there are fewer. */
static bool part_of(struct str container, size_t n, struct str *key, bool *key_escaped, struct value *v)
{
	struct json_reader r;
	json_reader_init(&r, container, 0);
	(void)json_next(&r);
	for (;; n--) {
		enum json_event ev = json_next(&r);
		if (ev == JSON_OBJECT_END || ev == JSON_ARRAY_END)
			return false;
		if (ev == JSON_KEY) {
			*key = r.token;
			*key_escaped = r.escaped;
			ev = json_next(&r);
		}
		const size_t from = r.token_pos;
		*v = (struct value){ .kind = ev, .escaped = r.escaped };
		if (ev == JSON_STRING)
			v->text = r.token;
		assert_true(json_skip(&r, ev));
		if (ev != JSON_STRING)
			v->text = (struct str){ container.p + from, r.pos - from };
		if (n == 0)
			return true;
	}
}

static struct str plain(struct str token, bool escaped, struct arena *a)
{
	if (!escaped)
		return token;
	char *p = arena_alloc(a, token.len + 1);
	return (struct str){ p, json_unescape(p, token) };
}

/* The number written out: sign, 60 digits before and 60 behind the point, 0 without a sign. */
static void write_out(struct str number, char out[122])
{
	char token[64];
	assert_true(number.len < sizeof(token));
	memcpy(token, number.p, number.len);
	token[number.len] = '\0';
	char *e = strpbrk(token, "eE");
	long place = 60 - (e ? strtol(e + 1, NULL, 10) : 0); /* of the digit before the point, counted from the left */
	if (e)
		*e = '\0';
	const char *digits = token + (token[0] == '-');
	memset(out, '0', 121);
	out[0] = token[0] == '-' ? '-' : '+';
	out[121] = '\0';
	place -= (long)strcspn(digits, ".") - 1;
	for (; *digits; digits++) {
		if (*digits == '.')
			continue;
		assert_true(place >= 1 && place <= 120);
		out[place++] = *digits;
	}
	if (strspn(out + 1, "0") == 120)
		out[0] = '+';
}

static bool oracle(struct value x, struct value y, struct arena *a);

/* The value of the last member of that name. */
static bool last_of(struct str object, struct str name, struct value *out, struct arena *a)
{
	bool found = false;
	struct str key = { 0 };
	bool escaped = false;
	struct value v;
	for (size_t i = 0; part_of(object, i, &key, &escaped, &v); i++) {
		if (str_eq(plain(key, escaped, a), name)) {
			*out = v;
			found = true;
		}
	}
	return found;
}

static bool oracle_covers(struct str x, struct str y, struct arena *a)
{
	struct str key = { 0 };
	bool escaped = false;
	struct value v;
	for (size_t i = 0; part_of(x, i, &key, &escaped, &v); i++) {
		const struct str name = plain(key, escaped, a);
		struct value in_x;
		struct value in_y;
		if (!last_of(x, name, &in_x, a) || !last_of(y, name, &in_y, a) || !oracle(in_x, in_y, a))
			return false;
	}
	return true;
}

static bool oracle(struct value x, struct value y, struct arena *a)
{
	if (x.kind != y.kind)
		return false;
	if (x.kind == JSON_STRING)
		return str_eq(plain(x.text, x.escaped, a), plain(y.text, y.escaped, a));
	if (x.kind == JSON_NUMBER) {
		char left[122];
		char right[122];
		write_out(x.text, left);
		write_out(y.text, right);
		return strcmp(left, right) == 0;
	}
	if (x.kind == JSON_OBJECT)
		return oracle_covers(x.text, y.text, a) && oracle_covers(y.text, x.text, a);
	if (x.kind != JSON_ARRAY)
		return true;
	for (size_t i = 0;; i++) {
		struct str key;
		bool escaped;
		struct value v;
		struct value w;
		const bool more = part_of(x.text, i, &key, &escaped, &v);
		if (more != part_of(y.text, i, &key, &escaped, &w))
			return false;
		if (!more)
			return true;
		if (!oracle(v, w, a))
			return false;
	}
}

static struct value whole(struct str text)
{
	struct json_reader r;
	json_reader_init(&r, text, 0);
	const enum json_event ev = json_next(&r);
	struct value v = { r.token, ev, r.escaped };
	const size_t from = r.token_pos;
	assert_true(json_skip(&r, ev));
	if (ev != JSON_STRING)
		v.text = (struct str){ text.p + from, r.pos - from };
	assert_int_equal(json_next(&r), JSON_END);
	return v;
}

static const char *pick(struct rand *rng, const char *const *list, size_t n)
{
	return list[rand_below(rng, n)];
}

static void random_text(struct rand *rng, struct buf *out, int depth)
{
	static const char *const numbers[] = { "0",      "-0",   "1",     "10",   "1e1",  "1.0",
		                               "100e-1", "-1",   "0.1",   "1e-1", "1.50", "15e-1",
		                               "-15",    "1e20", "10e19", "0e9",  "1.01", "101e-2" };
	static const char *const strings[] = { "\"a\"", "\"\\u0061\"", "\"b\"", "\"\"", "\"a\\n\"", "\"a\\u000A\"" };
	static const char *const literals[] = { "true", "false", "null" };
	static const char *const spaces[] = { "", "", "", " ", "\n" };
	const uint64_t kind = rand_below(rng, depth ? 6 : 4);
	buf_puts(out, pick(rng, spaces, ARRAY_LEN(spaces)));
	if (kind < 2) {
		buf_puts(out, pick(rng, numbers, ARRAY_LEN(numbers)));
	} else if (kind == 2) {
		buf_puts(out, pick(rng, strings, ARRAY_LEN(strings)));
	} else if (kind == 3) {
		buf_puts(out, pick(rng, literals, ARRAY_LEN(literals)));
	} else {
		buf_putc(out, kind == 4 ? '[' : '{');
		for (uint64_t n = rand_below(rng, 4), i = 0; i < n; i++) {
			if (i)
				buf_putc(out, ',');
			if (kind == 5) {
				buf_puts(out, pick(rng, strings, ARRAY_LEN(strings)));
				buf_putc(out, ':');
			}
			random_text(rng, out, depth - 1);
		}
		buf_putc(out, kind == 4 ? ']' : '}');
	}
	buf_puts(out, pick(rng, spaces, ARRAY_LEN(spaces)));
}

/* Small random documents, of which many are equal, against the oracle. */
static void test_agrees_with_the_oracle(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 20240229);
	struct buf x = { 0 };
	struct buf y = { 0 };
	struct arena a = { 0 };
	unsigned equals = 0;
	for (int round = 0; round < 60000; round++) {
		buf_clear(&x);
		buf_clear(&y);
		random_text(&rng, &x, 3);
		random_text(&rng, &y, 3);
		const struct str left = { (const char *)x.data, x.len };
		const struct str right = { (const char *)y.data, y.len };
		const bool expected = oracle(whole(left), whole(right), &a);
		equals += expected;
		if (json_equal(left, right, &a) != expected)
			fail_msg("'" STR_FMT "' and '" STR_FMT "': expected %d", STR_ARG(left), STR_ARG(right),
			         expected);
		arena_reset(&a);
	}
	assert_true(equals > 1000); /* else the documents are too far apart to show anything */
	buf_fini(&x);
	buf_fini(&y);
	arena_fini(&a);
}

/* The same value written anew, members in another order and numbers respelled, stays the same; one change shows. */
static void test_respelling_keeps_the_value(void **state)
{
	(void)state;
	same("{\"type\":\"object\",\"properties\":{\"n\":{\"maximum\":10,\"enum\":[1,2.50]}},\"required\":[\"n\"]}",
	     "{\"required\":[\"n\"],\"properties\":{\"n\":{\"enum\":[1.0,25e-1],\"maximum\":1e1}},\"type\":"
	     "\"obj\\u0065ct\"}");
	differ(
	    "{\"type\":\"object\",\"properties\":{\"n\":{\"maximum\":10,\"enum\":[1,2.50]}},\"required\":[\"n\"]}",
	    "{\"required\":[\"n\"],\"properties\":{\"n\":{\"enum\":[25e-1,1.0],\"maximum\":1e1}},\"type\":\"object\"}");
}

/* Numbers have one order, whatever their spelling: checked on every pair of an ascending list. */
static void test_numbers_have_an_order(void **state)
{
	(void)state;
	static const char *const ascending[] = {
		"-1e400",
		"-9007199254740993.5",
		"-9007199254740993",
		"-12",
		"-1.5",
		"-1e-400",
		"-0e9",
		"1e-400",
		"0.0999",
		"0.1",
		"0.12",
		"1",
		"1.0000000000000000000001",
		"9.99",
		"10",
		"100",
		"9007199254740992",
		"9007199254740993.0",
		"9007199254740993.4",
		"1e400",
	};
	for (size_t i = 0; i < ARRAY_LEN(ascending); i++) {
		for (size_t k = 0; k < ARRAY_LEN(ascending); k++) {
			int order;
			assert_true(json_number_order(str_of(ascending[i]), str_of(ascending[k]), &order));
			const int expected = (i > k) - (i < k);
			if ((order > 0) - (order < 0) != expected)
				fail_msg("%s and %s: %d", ascending[i], ascending[k], order);
		}
	}
}

static size_t compare_large(const struct buf *x, const struct buf *y, bool expected)
{
	struct arena a = { 0 };
	const struct str left = { (const char *)x->data, x->len };
	const struct str right = { (const char *)y->data, y->len };
	assert_int_equal(json_equal(left, right, &a), expected);
	const size_t used = a.used;
	arena_fini(&a);
	return used;
}

/* A hostile document costs n log n steps and ten bytes a byte: quadratic work here would take minutes. */
static void test_large_documents_have_bounds(void **state)
{
	(void)state;
	enum { SIZE = 4 << 20 };
	static const char *const units[] = { "0", "[]", "{}", "\"\\n\"", "{\"\":0}", "{\"\":0,\"\":0,\"\":0}" };
	struct buf x = { 0 };
	struct buf y = { 0 };
	const uint64_t began = clock_mono_ns();
	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		buf_clear(&x);
		buf_clear(&y);
		buf_puts(&y, " ");
		while (x.len < SIZE) {
			buf_puts(&x, x.len ? "," : "[");
			buf_puts(&x, units[u]);
		}
		buf_putc(&x, ']');
		buf_put(&y, x.data, x.len);
		assert_true(compare_large(&x, &y, true) <= 10 * (x.len + y.len));
	}
	/* One object, keys in opposite order. */
	buf_clear(&x);
	buf_clear(&y);
	for (int i = 0; i < 200000; i++) {
		buf_printf(&x, "%c\"%d\":%d", i ? ',' : '{', i, i);
		buf_printf(&y, "%c\"%d\":%d", i ? ',' : '{', 199999 - i, 199999 - i);
	}
	buf_putc(&x, '}');
	buf_putc(&y, '}');
	assert_true(compare_large(&x, &y, true) <= 10 * (x.len + y.len));
	y.data[y.len - 2] = '7';
	compare_large(&x, &y, false);
	assert_true(clock_mono_ns() - began < 60ull * 1000000000u);
	buf_fini(&x);
	buf_fini(&y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_compare_exactly),    cmocka_unit_test(test_exponents_beyond_int32),
		cmocka_unit_test(test_objects_and_strings),        cmocka_unit_test(test_arrays_and_shapes),
		cmocka_unit_test(test_not_json_compares_by_bytes), cmocka_unit_test(test_depth_has_a_limit),
		cmocka_unit_test(test_agrees_with_the_oracle),     cmocka_unit_test(test_respelling_keeps_the_value),
		cmocka_unit_test(test_numbers_have_an_order),      cmocka_unit_test(test_large_documents_have_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
