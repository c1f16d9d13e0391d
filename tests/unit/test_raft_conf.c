/* The configuration's bytes: what goes in comes out, and nothing else is taken. */
#include "base/bytes.h"
#include "base/rand.h"
#include "raft_text.h"

static void assert_refused(const void *bytes, size_t len, int code, const char *says)
{
	struct raft_conf out;
	struct err e = { 0 };
	assert_int_equal(raft_conf_decode(bytes, len, &out, &e), code);
	if (!strstr(e.msg, says))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
}

/* A configuration survives its encoding, at its smallest and at its largest. */
static void test_conf_survives_encoding(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 9; n += 4) {
		struct raft_conf c = text_make_conf(n, n / 2);
		c.servers[n - 1].staged = n > 1;
		struct buf b = { 0 };
		raft_conf_encode(&c, &b);
		struct raft_conf back = { 0 };
		assert_int_equal(raft_conf_decode(b.data, b.len, &back, NULL), 0);
		assert_int_equal(back.count, n);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(back.servers[i].id, c.servers[i].id);
			assert_int_equal(back.servers[i].voter, c.servers[i].voter);
			assert_int_equal(back.servers[i].staged, c.servers[i].staged);
			assert_string_equal(back.servers[i].name, c.servers[i].name);
			assert_string_equal(back.servers[i].addr, c.servers[i].addr);
		}
		buf_fini(&b);
	}
}

/* The bytes themselves are a format on disk: they do not change unseen. */
static void test_conf_bytes_stand_still(void **state)
{
	(void)state;
	const struct raft_conf c = { .count = 3,
		                     .servers = {
					 { .id = 0x0102030405060708, .voter = true, .name = "ab", .addr = "h:1" },
					 { .id = 9, .name = "c", .addr = "h:2" },
					 { .id = 10, .staged = true, .name = "d", .addr = "h:3" },
				     } };
	static const uint8_t want[] = { 1,   3,   8, 7, 6, 5, 4, 3, 2, 1, 1, 2,   'a', 'b', 3,   0,   'h',
		                        ':', '1', 9, 0, 0, 0, 0, 0, 0, 0, 0, 1,   'c', 3,   0,   'h', ':',
		                        '2', 10,  0, 0, 0, 0, 0, 0, 0, 2, 1, 'd', 3,   0,   'h', ':', '3' };
	struct buf b = { 0 };
	raft_conf_encode(&c, &b);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.data, want, sizeof(want));
	buf_fini(&b);
}

/* Cut short at any byte, or with a byte more, it is refused. */
static void test_conf_of_other_length_is_refused(void **state)
{
	(void)state;
	const struct raft_conf c = text_make_conf(3, 1);
	struct buf b = { 0 };
	raft_conf_encode(&c, &b);
	const size_t len = b.len;
	buf_putc(&b, 0);
	struct raft_conf out;
	for (size_t n = 0; n < len; n++)
		assert_int_equal(raft_conf_decode(b.data, n, &out, NULL), ERR_CORRUPT);
	assert_refused(b.data, len + 1, ERR_CORRUPT, "1 bytes behind");
	b.data[0] = 2;
	assert_refused(b.data, len, ERR_VERSION, "format 2");
	buf_fini(&b);
}

/* Each rule of a configuration is enforced when it is read. */
static void test_conf_that_breaks_a_rule_is_refused(void **state)
{
	(void)state;
	struct buf b = { 0 };
	struct raft_conf c;
#define REFUSED(change, says)                                                                                          \
	do {                                                                                                           \
		c = text_make_conf(3, 1);                                                                              \
		change;                                                                                                \
		buf_clear(&b);                                                                                         \
		raft_conf_encode(&c, &b);                                                                              \
		assert_refused(b.data, b.len, ERR_CORRUPT, says);                                                      \
	} while (0)
	REFUSED(c.count = 0, "0 servers");
	REFUSED(c.servers[1].id = 0, "lacks id");
	REFUSED(c.servers[2].id = 1, "the same id");
	REFUSED(c.servers[1].name[0] = '\0', "lacks id, name");
	REFUSED(c.servers[1].name[0] = ' ', "lacks id, name");
	REFUSED(c.servers[1].addr[0] = '\0', "lacks id, name");
	REFUSED(memcpy(c.servers[1].name, "n1", 3), "not ordered");
	REFUSED(c.servers[0].voter = c.servers[1].voter = false, "needs a voter");
#undef REFUSED
	c = text_make_conf(1, 0);
	buf_clear(&b);
	raft_conf_encode(&c, &b);
	b.data[10] = 3;
	assert_refused(b.data, b.len, ERR_CORRUPT, "server 0 of the configuration is damaged");
	buf_fini(&b);
}

/* Random damage is either refused or a configuration that keeps all rules; never a crash. */
static void test_conf_survives_damage(void **state)
{
	(void)state;
	struct rand dice;
	rand_seed(&dice, 3);
	const struct raft_conf c = text_make_conf(3, 1);
	struct buf b = { 0 };
	raft_conf_encode(&c, &b);
	for (int i = 0; i < 20000; i++) {
		uint8_t *bytes = malloc(b.len); /* exactly as long as it is: the sanitizer watches the edge */
		assert_non_null(bytes);
		memcpy(bytes, b.data, b.len);
		for (uint64_t n = 1 + rand_below(&dice, 3); n > 0; n--)
			bytes[rand_below(&dice, b.len)] = (uint8_t)rand_u64(&dice);
		struct raft_conf out;
		if (raft_conf_decode(bytes, b.len, &out, NULL) == 0) {
			struct buf again = { 0 };
			raft_conf_encode(&out, &again);
			assert_int_equal(again.len, b.len);
			assert_memory_equal(again.data, bytes, b.len);
			buf_fini(&again);
		}
		free(bytes);
	}
	buf_fini(&b);
}

/* Servers are found by id and by name, and not found when they are not there. */
static void test_conf_finds_servers(void **state)
{
	(void)state;
	const struct raft_conf c = text_make_conf(3, 0);
	assert_ptr_equal(raft_conf_find(&c, 2), &c.servers[1]);
	assert_ptr_equal(raft_conf_find_name(&c, "n3"), &c.servers[2]);
	assert_null(raft_conf_find(&c, 102));
	assert_null(raft_conf_find_name(&c, "n4"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conf_survives_encoding),
		cmocka_unit_test(test_conf_bytes_stand_still),
		cmocka_unit_test(test_conf_of_other_length_is_refused),
		cmocka_unit_test(test_conf_that_breaks_a_rule_is_refused),
		cmocka_unit_test(test_conf_survives_damage),
		cmocka_unit_test(test_conf_finds_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
