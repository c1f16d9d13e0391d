/* Sealing: what opens and what does not, and the keys that another implementation derives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "service/keyring.h"

#define PASSWORD "correct horse battery staple"
#define SECRET "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static const struct cmd_sealed_tuple tuple = { STR_LIT("eu"), STR_LIT("1111111111111111"),
	                                       STR_LIT("https://eu.example.com"), STR_LIT("repl"),
	                                       STR_LIT("system-roots") };

static struct keyring ring(const char *current, const char *previous)
{
	const struct keyring_secrets s = { (const uint8_t *)current, strlen(current), (const uint8_t *)previous,
		                           previous ? strlen(previous) : 0 };
	struct keyring k;
	assert_true(keyring_may_seal(&s));
	assert_int_equal(keyring_init(&k, &s, STR_LIT("saltsaltsaltsaltsaltsaltsaltsalt"), NULL), 0);
	return k;
}

/* HKDF with SHA-512 as another program computes it. */
static void test_keys_are_derived_as_elsewhere(void **state)
{
	const struct keyring k = ring(SECRET, NULL);
	char hex[2 * sizeof(k.current.cipher) + 1];
	(void)state;
	for (size_t i = 0; i < sizeof(k.current.cipher); i++)
		snprintf(hex + 2 * i, 3, "%02x", k.current.cipher[i]);
	assert_string_equal(hex, "4d1aeb7a1a17869cbe9d0019c30a40e58136e47cb397690c44ba10f725a5fc58");
	assert_string_equal(k.current.version, "207e3497004dd4fa");
	assert_string_equal(k.previous.version, "");
}

/* What was sealed opens; each seal is another text; the password is not in it. */
static void test_seal_and_open(void **state)
{
	const struct keyring k = ring(SECRET, NULL);
	struct arena a = { 0 };
	struct sealed one, two;
	char out[PASSWORD_MAX];
	size_t len;
	(void)state;
	assert_int_equal(keyring_seal(&k, &tuple, STR_LIT(PASSWORD), &a, &one, NULL), 0);
	assert_int_equal(keyring_seal(&k, &tuple, STR_LIT(PASSWORD), &a, &two, NULL), 0);
	assert_true(sealed_is_formed(&one));
	assert_false(str_eq(one.ct, two.ct));
	assert_null(memmem(one.ct.p, one.ct.len, PASSWORD, 8));
	assert_int_equal(keyring_open(&k, &tuple, &one, out, &len, NULL), 0);
	assert_int_equal(len, strlen(PASSWORD));
	assert_memory_equal(out, PASSWORD, len);
	arena_fini(&a);
}

/* Bound to every part of the tuple, and whole to the last bit. */
static void test_open_refuses_what_was_moved(void **state)
{
	const struct keyring k = ring(SECRET, NULL);
	struct cmd_sealed_tuple moved[5] = { tuple, tuple, tuple, tuple, tuple };
	struct arena a = { 0 };
	struct sealed s;
	char out[PASSWORD_MAX];
	size_t len;
	(void)state;
	moved[0].name = STR_LIT("us");
	moved[1].id = STR_LIT("2222222222222222");
	moved[2].url = STR_LIT("https://us.example.com");
	moved[3].username = STR_LIT("other");
	moved[4].trust_anchor = STR_LIT("another");
	assert_int_equal(keyring_seal(&k, &tuple, STR_LIT(PASSWORD), &a, &s, NULL), 0);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(keyring_open(&k, &moved[i], &s, out, &len, NULL), ERR_CORRUPT);
	for (size_t i = 0; i < s.ct.len; i++) {
		char *ct = (char *)s.ct.p;
		ct[i] = (char)(ct[i] ^ 1);
		assert_int_equal(keyring_open(&k, &tuple, &s, out, &len, NULL), ERR_CORRUPT);
		ct[i] = (char)(ct[i] ^ 1);
	}
	s.ct.len = 27;
	assert_int_equal(keyring_open(&k, &tuple, &s, out, &len, NULL), ERR_CORRUPT);
	arena_fini(&a);
}

/* After a rotation the old key opens and the new one seals; without the old secret it stays shut. */
static void test_rotation(void **state)
{
	const struct keyring old = ring(SECRET, NULL), both = ring(OTHER, SECRET), only = ring(OTHER, NULL);
	struct arena a = { 0 };
	struct sealed s, again;
	char out[PASSWORD_MAX];
	size_t len;
	(void)state;
	assert_int_equal(keyring_seal(&old, &tuple, STR_LIT(PASSWORD), &a, &s, NULL), 0);
	assert_int_equal(keyring_open(&both, &tuple, &s, out, &len, NULL), 0);
	assert_int_equal(keyring_open(&only, &tuple, &s, out, &len, NULL), ERR_NOTFOUND);
	assert_int_equal(keyring_seal(&both, &tuple, (struct str){ out, len }, &a, &again, NULL), 0);
	assert_true(str_is(again.kv, only.current.version));
	assert_int_equal(keyring_open(&only, &tuple, &again, out, &len, NULL), 0);
	arena_fini(&a);
}

/* The same password of the same remote has one print; of another remote, or under another secret, another. */
static void test_prints(void **state)
{
	const struct keyring k = ring(SECRET, NULL), other = ring(OTHER, NULL);
	char a[KEYRING_PRINT_SIZE], b[KEYRING_PRINT_SIZE];
	(void)state;
	keyring_print(&k, tuple.id, STR_LIT(PASSWORD), a);
	assert_string_equal(a, "49bd9818f125");
	keyring_print(&k, STR_LIT("2222222222222222"), STR_LIT(PASSWORD), b);
	assert_string_not_equal(a, b);
	keyring_print(&other, tuple.id, STR_LIT(PASSWORD), b);
	assert_string_not_equal(a, b);
}

static void test_short_secrets_seal_nothing(void **state)
{
	const struct keyring_secrets none = { 0 }, brief = { (const uint8_t *)SECRET, KEYRING_SECRET_MIN - 1, NULL, 0 };
	(void)state;
	assert_false(keyring_may_seal(&none));
	assert_false(keyring_may_seal(&brief));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_are_derived_as_elsewhere),
		cmocka_unit_test(test_seal_and_open),
		cmocka_unit_test(test_open_refuses_what_was_moved),
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_prints),
		cmocka_unit_test(test_short_secrets_seal_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
