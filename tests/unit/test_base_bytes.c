/* Numbers, hex, UTF-8, checksums and random numbers, against known answers and slow oracles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/log.h"
#include "base/prom.h"
#include "base/rand.h"

/* Fixed-width integers come back as they went in, in both byte orders. */
static void test_integers_round_trip(void **state)
{
	(void)state;
	uint8_t b[8];
	const uint64_t v = 0x0123456789abcdefu;
	put_le64(b, v);
	assert_int_equal(b[0], 0xef);
	assert_true(get_le64(b) == v);
	put_be64(b, v);
	assert_int_equal(b[0], 0x01);
	assert_true(get_be64(b) == v);
	put_le32(b, 0xdeadbeefu);
	assert_true(get_le32(b) == 0xdeadbeefu);
	put_be16(b, 0x1234);
	assert_int_equal(b[0], 0x12);
	assert_int_equal(get_be16(b), 0x1234);
}

/* Decimal parsing accepts exactly the canonical spellings in range. */
static void test_decimal_is_strict(void **state)
{
	(void)state;
	uint64_t u;
	int64_t i;
	assert_true(u64_parse(STR_LIT("18446744073709551615"), &u));
	assert_true(u == UINT64_MAX);
	static const char *const bad[] = { "",   "18446744073709551616", "00", "01", "+1", "-1", " 1", "1 ",
		                           "1a", "99999999999999999999" };
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
		assert_false(u64_parse(str_of(bad[k]), &u));
	assert_true(i64_parse(STR_LIT("-9223372036854775808"), &i));
	assert_true(i == INT64_MIN);
	assert_true(i64_parse(STR_LIT("9223372036854775807"), &i));
	assert_true(i == INT64_MAX);
	assert_false(i64_parse(STR_LIT("9223372036854775808"), &i));
	assert_false(i64_parse(STR_LIT("-9223372036854775809"), &i));
	assert_false(i64_parse(STR_LIT("-0"), &i));
	assert_false(i64_parse(STR_LIT("-"), &i));
}

/* Identities are 16 lower-case hex digits, nothing else. */
static void test_hex_round_trips(void **state)
{
	(void)state;
	char text[HEX64_SIZE];
	uint64_t v;
	hex64(text, 0x00ff00aa12345678u);
	assert_string_equal(text, "00ff00aa12345678");
	assert_true(hex64_parse(str_of(text), &v));
	assert_true(v == 0x00ff00aa12345678u);
	assert_false(hex64_parse(STR_LIT("00FF00aa12345678"), &v));
	assert_false(hex64_parse(STR_LIT("00ff00aa1234567"), &v));
	assert_false(hex64_parse(STR_LIT("00ff00aa123456789"), &v));
	assert_false(hex64_parse(STR_LIT("00ff00aa1234567g"), &v));
}

/* A slow decoder: what it takes as one code point in shortest form is valid. */
static bool utf8_oracle(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len;) {
		static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
		const uint8_t c = p[i++];
		const unsigned more = c < 0x80             ? 0
		                      : (c & 0xe0) == 0xc0 ? 1
		                      : (c & 0xf0) == 0xe0 ? 2
		                      : (c & 0xf8) == 0xf0 ? 3
		                                           : 9;
		if (more == 9 || len - i < more)
			return false;
		uint32_t v = more == 0 ? c : c & (0x3fu >> more);
		for (unsigned k = 0; k < more; k++, i++) {
			if ((p[i] & 0xc0) != 0x80)
				return false;
			v = v << 6 | (p[i] & 0x3f);
		}
		if (v < least[more] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
			return false;
	}
	return true;
}

/* Every string of up to two bytes, and many longer ones, judged as the slow decoder does. */
static void test_utf8_agrees_with_the_slow_decoder(void **state)
{
	(void)state;
	uint8_t b[4];
	for (unsigned x = 0; x < 65536; x++) {
		b[0] = (uint8_t)(x >> 8);
		b[1] = (uint8_t)x;
		assert_int_equal(utf8_valid(b, 2), utf8_oracle(b, 2));
	}
	struct rand r;
	rand_seed(&r, 7);
	for (int k = 0; k < 300000; k++) {
		/* Lead bytes and edges are likelier than chance would make them. */
		static const uint8_t edges[] = { 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1,
			                         0xc2, 0xe0, 0xed, 0xf0, 0xf4, 0xf5 };
		for (size_t i = 0; i < 4; i++)
			b[i] = rand_below(&r, 2) ? edges[rand_below(&r, sizeof(edges))] : (uint8_t)rand_u64(&r);
		assert_int_equal(utf8_valid(b, 4), utf8_oracle(b, 4));
	}
}

static uint32_t crc_oracle(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
	}
	return ~crc;
}

/* The check value of the standard, the bit-wise oracle at each length and alignment, and chaining. */
static void test_crc32c_is_castagnoli(void **state)
{
	(void)state;
	assert_true(crc32c(0, "123456789", 9) == 0xE3069283u);
	assert_true(crc32c(5, NULL, 0) == 5);
	uint8_t bytes[96];
	struct rand r;
	rand_seed(&r, 1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rand_u64(&r);
	for (size_t from = 0; from < 9; from++) {
		for (size_t len = 0; from + len <= sizeof(bytes); len++) {
			const uint32_t want = crc_oracle(9, bytes + from, len);
			assert_true(crc32c(9, bytes + from, len) == want);
			const size_t cut = len / 3;
			assert_true(crc32c(crc32c(9, bytes + from, cut), bytes + from + cut, len - cut) == want);
		}
	}
}

/* The same seed gives the same numbers, and a bound is kept and reached. */
static void test_rand_is_repeatable_and_bounded(void **state)
{
	(void)state;
	struct rand a;
	struct rand b;
	rand_seed(&a, 42);
	rand_seed(&b, 42);
	unsigned seen = 0;
	for (int i = 0; i < 1000; i++) {
		assert_true(rand_u64(&a) == rand_u64(&b));
		const uint64_t v = rand_below(&a, 5);
		assert_true(v == rand_below(&b, 5));
		assert_true(v < 5);
		seen |= 1u << v;
	}
	assert_int_equal(seen, 31);
}

/* Text from outside cannot forge or break a log line, and a long one is cut. */
static void test_log_quote_escapes_and_cuts(void **state)
{
	(void)state;
	char out[64];
	assert_string_equal(log_quote(out, sizeof(out), "a\nb\"c\\\x01", 7), "a\\u000ab\\\"c\\\\\\u0001");
	char big[100];
	memset(big, '\n', sizeof(big));
	log_quote(out, 16, big, sizeof(big));
	assert_true(strlen(out) < 16);
	assert_string_equal(out + strlen(out) - 3, "...");
}

/* Every byte is tried: digits of both cases have their value, nothing else has one. */
static void test_hex_digit_knows_both_cases_and_nothing_else(void **state)
{
	(void)state;
	for (int c = -128; c < 256; c++) {
		static const char digits[] = "0123456789abcdefABCDEF";
		const char *at = c > 0 && c < 128 ? strchr(digits, c) : NULL;
		const int want = !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
		assert_int_equal(hex_digit((char)c), want);
	}
}

/* A time is counted under the first bound it is not over, and the exposition accumulates: +Inf is the count. */
static void test_histogram_accumulates_under_its_bounds(void **state)
{
	(void)state;
	struct prom_histogram a = { 0 }, b = { 0 }, sum = { 0 };
	struct buf out = { 0 };
	prom_observe(&a, 50 * 1000);                        /* on the first bound: not over it */
	prom_observe(&a, 50 * 1000 + 1);                    /* over it */
	prom_observe(&b, UINT64_C(6) * 1000 * 1000 * 1000); /* over all */
	prom_sum(&sum, &a);
	prom_sum(&sum, &b);
	prom_put_histogram(&out, "t_seconds", "kind=\"x\"", &sum);
	const char *text = buf_cstr(&out);
	assert_non_null(strstr(text, "t_seconds_bucket{kind=\"x\",le=\"5e-05\"} 1\n"));
	assert_non_null(strstr(text, "t_seconds_bucket{kind=\"x\",le=\"0.0001\"} 2\n"));
	assert_non_null(strstr(text, "t_seconds_bucket{kind=\"x\",le=\"5\"} 2\n"));
	assert_non_null(strstr(text, "t_seconds_bucket{kind=\"x\",le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(text, "t_seconds_sum{kind=\"x\"} 6.000100001\n"));
	assert_non_null(strstr(text, "t_seconds_count{kind=\"x\"} 3\n"));
	buf_fini(&out);
}

/* A label's value cannot end the label or the line. */
static void test_label_values_are_escaped(void **state)
{
	(void)state;
	struct buf out = { 0 };
	prom_put_label(&out, STR_LIT("a\"b\\c\nd"));
	assert_string_equal(buf_cstr(&out), "a\\\"b\\\\c\\nd");
	buf_fini(&out);
}

/* A message is cut at its buffer, never overrun, and the system's text is appended. */
static void test_err_carries_code_and_sentence(void **state)
{
	(void)state;
	struct err e;
	assert_int_equal(err_set_errno(&e, ERR_IO, 28, "writing %s", "f"), ERR_IO);
	assert_int_equal(e.code, ERR_IO);
	assert_string_equal(e.msg, "writing f: No space left on device");
	char big[2000];
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(err_set_errno(&e, ERR_IO, 5, "%s", big), ERR_IO);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	assert_int_equal(err_set(NULL, ERR_FULL, "nobody listens"), ERR_FULL);
	assert_string_equal(err_name(ERR_CORRUPT), "CORRUPT");
	assert_string_equal(err_name(77), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers_round_trip),
		cmocka_unit_test(test_decimal_is_strict),
		cmocka_unit_test(test_hex_round_trips),
		cmocka_unit_test(test_hex_digit_knows_both_cases_and_nothing_else),
		cmocka_unit_test(test_histogram_accumulates_under_its_bounds),
		cmocka_unit_test(test_label_values_are_escaped),
		cmocka_unit_test(test_utf8_agrees_with_the_slow_decoder),
		cmocka_unit_test(test_crc32c_is_castagnoli),
		cmocka_unit_test(test_rand_is_repeatable_and_bounded),
		cmocka_unit_test(test_log_quote_escapes_and_cuts),
		cmocka_unit_test(test_err_carries_code_and_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
