/* SHA-512 against the examples of FIPS 180-4 and what other programs say of the lengths around a block's end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/sha512.h"

static const char *digest_of(const void *bytes, size_t len, size_t step)
{
	static char text[2 * SHA512_SIZE + 1];
	uint8_t out[SHA512_SIZE];
	struct sha512 s;
	sha512_init(&s);
	for (size_t at = 0; at < len; at += step)
		sha512_add(&s, (const char *)bytes + at, len - at < step ? len - at : step);
	sha512_end(&s, out);
	for (size_t i = 0; i < SHA512_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", out[i]);
	return text;
}

/* The published examples: nothing, three bytes, and two blocks. */
static void test_sha512_examples(void **state)
{
	static const char two[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
				  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
	(void)state;
	assert_string_equal(digest_of("", 0, 1), "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
	                                         "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
	assert_string_equal(digest_of("abc", 3, 3), "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
	                                            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
	assert_string_equal(digest_of(two, sizeof(two) - 1, sizeof(two)),
	                    "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
	                    "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909");
}

/* Lengths at which the padding just fits a block, and just does not; in pieces of any size the digest is the same. */
static void test_sha512_lengths_around_a_block(void **state)
{
	static const struct {
		size_t len;
		const char *digest;
	} rows[] = {
		{ 111, "fa9121c7b32b9e01733d034cfc78cbf67f926c7ed83e82200ef8681819692176"
		       "0b4beff48404df811b953828274461673c68d04e297b0eb7b2b4d60fc6b566a2" },
		{ 112, "c01d080efd492776a1c43bd23dd99d0a2e626d481e16782e75d54c2503b5dc32"
		       "bd05f0f1ba33e568b88fd2d970929b719ecbb152f58f130a407c8830604b70ca" },
		{ 113, "55ddd8ac210a6e18ba1ee055af84c966e0dbff091c43580ae1be703bdb85da31"
		       "acf6948cf5bd90c55a20e5450f22fb89bd8d0085e39f85a86cc46abbca75e24d" },
		{ 119, "130396a75cb483f2eee8c56d8a668bb3d2641f5243212c0bee2bd33da096ad9e"
		       "b8179fe18f9eaacf76e09fae9de4c3f14ba13341e345be05bf76c182cc3468cb" },
		{ 120, "f241de612b01aa2fa3cf01531d2a8e5e17fc761dfd48a704a834a47f57d6eade"
		       "7804ecc39be42fdef16ec6adeaf7c01c2fd0c4cc97d3860907cfa4a3b36d0c05" },
		{ 121, "0ae7a79758a9ffbd1c04aa080bfa82daf9641f9c2a1cc82b628cbe4006bd4770"
		       "1c78e5022d2ca5ca5384d26d93fb16d595b9775dab17c88ef38e4ce9fdac4b52" },
		{ 127, "828613968b501dc00a97e08c73b118aa8876c26b8aac93df128502ab360f91ba"
		       "b50a51e088769a5c1eff4782ace147dce3642554199876374291f5d921629502" },
		{ 128, "b73d1929aa615934e61a871596b3f3b33359f42b8175602e89f7e06e5f658a24"
		       "3667807ed300314b95cacdd579f3e33abdfbe351909519a846d465c59582f321" },
		{ 129, "4f681e0bd53cda4b5a2041cc8a06f2eabde44fb16c951fbd5b87702f07aeab61"
		       "1565b19c47fde30587177ebb852e3971bbd8d3fd30da18d71037dfbd98420429" },
		{ 239, "52c853cb8d907f3d4d6b889beb027985d7c273486d75f8baf26f80d24e90c74c"
		       "6c3de3e22131582380a7d14d43f2941a31385439cd6ddc469f628015e50bf286" },
		{ 240, "4c296d90c61052a62ffb1dd196f1b7b09373b1f93e71836baebf89690546b759"
		       "5684dbe9467a8e484fa0d1094272b4344a7c24f5fee8daedeb0bf549c985ab5f" },
		{ 256, "6a9169eb662f136d87374070e8828b3e615a7eca32a89446e9225b02832709be"
		       "095e635c824a2bb70213ba2ea0ababac0809827843992c851903b7ac0c136699" },
	};
	char bytes[512];
	(void)state;
	memset(bytes, 'a', sizeof(bytes));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 1; step < 300; step += 43)
			assert_string_equal(digest_of(bytes, rows[i].len, step), rows[i].digest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha512_examples),
		cmocka_unit_test(test_sha512_lengths_around_a_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
