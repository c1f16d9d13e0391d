/* Base64 against the vectors of RFC 4648 and a slow decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "model/base64.h"

static void assert_pair(struct str bytes, const char *text)
{
	char out[64];
	const size_t n = base64_size(bytes.len);
	assert_int_equal(n, strlen(text));
	base64_encode(out, bytes);
	assert_memory_equal(out, text, n);
	size_t len;
	assert_true(base64_decode(out, &len, str_of(text)));
	assert_int_equal(len, bytes.len);
	assert_memory_equal(out, bytes.p, len);
}

/* The test vectors of RFC 4648, section 10. */
static void test_rfc_vectors(void **state)
{
	(void)state;
	assert_pair(STR_LIT(""), "");
	assert_pair(STR_LIT("f"), "Zg==");
	assert_pair(STR_LIT("fo"), "Zm8=");
	assert_pair(STR_LIT("foo"), "Zm9v");
	assert_pair(STR_LIT("foob"), "Zm9vYg==");
	assert_pair(STR_LIT("fooba"), "Zm9vYmE=");
	assert_pair(STR_LIT("foobar"), "Zm9vYmFy");
	assert_pair(STR_LIT("\xfb\xff\xfe"), "+//+");
}

/* The oracle: the alphabet searched, bits collected one at a time, and the text that must result spelled again. */
static bool slow_decode(struct str text, uint8_t *out, size_t *len)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t bits[512];
	size_t n = 0;
	size_t body = text.len;
	while (body && text.len - body < 2 && text.p[body - 1] == '=')
		body--;
	for (size_t i = 0; i < body; i++) {
		const char *at = text.p[i] ? strchr(alphabet, text.p[i]) : NULL;
		if (!at)
			return false;
		for (int b = 5; b >= 0; b--)
			bits[n++] = (uint8_t)((at - alphabet) >> b & 1);
	}
	*len = n / 8;
	for (size_t i = 0; i < *len; i++) {
		out[i] = 0;
		for (size_t b = 0; b < 8; b++)
			out[i] = (uint8_t)(out[i] << 1 | bits[i * 8 + b]);
	}
	for (size_t i = *len * 8; i < n; i++) {
		if (bits[i])
			return false;
	}
	return text.len == (*len + 2) / 3 * 4;
}

/* Random texts near the alphabet are accepted exactly when the slow decoder accepts them, with the same bytes. */
static void test_decode_against_slow(void **state)
{
	(void)state;
	static const char chars[] = "AAAABQgwZz019+/==-_ \n";
	struct rand rng;
	rand_seed(&rng, 1);
	int accepted = 0;
	for (int i = 0; i < 300000; i++) {
		char text[16];
		const size_t n = rand_below(&rng, 4) ? 4 * rand_below(&rng, 4) : rand_below(&rng, sizeof(text));
		for (size_t k = 0; k < n; k++)
			text[k] = chars[rand_below(&rng, k + 2 < n ? 14 : sizeof(chars))];
		uint8_t want[16];
		uint8_t got[16];
		size_t want_len;
		size_t got_len;
		const bool ok = slow_decode((struct str){ text, n }, want, &want_len);
		assert_true(base64_decode(got, &got_len, (struct str){ text, n }) == ok);
		if (ok) {
			accepted++;
			assert_int_equal(got_len, want_len);
			assert_memory_equal(got, want, want_len);
		}
	}
	assert_in_range(accepted, 10000, 290000); /* both answers were asked for */
}

/* Every length and random bytes come back. */
static void test_round_trip(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 2);
	for (size_t n = 0; n < 300; n++) {
		char in[300];
		char text[400];
		char back[300];
		for (size_t k = 0; k < n; k++)
			in[k] = (char)rand_u64(&rng);
		base64_encode(text, (struct str){ in, n });
		size_t len;
		assert_true(base64_decode(back, &len, (struct str){ text, base64_size(n) }));
		assert_int_equal(len, n);
		assert_memory_equal(back, in, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc_vectors),
		cmocka_unit_test(test_decode_against_slow),
		cmocka_unit_test(test_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
