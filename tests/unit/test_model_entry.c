/* The envelope: its bytes, its limits, and that no damage gets through unanswered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rand.h"
#include "model/entry.h"

static struct entry_builder two_commands(void)
{
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_DELETE, &(struct cmd_name){ STR_LIT("ab") });
	entry_builder_add(&b, CMD_MEMBER_DRAINING, &(struct cmd_member_draining){ STR_LIT("n"), true });
	return b;
}

static const struct entry_header with_idem = {
	.actor = { "ann", 3 },
	.origin = { "n1", 2 },
	.has_idem = true,
	.idem = { { "key", 3 }, 0x1122334455667788u, 201, { "{\"i\":\x01}", 7 } },
};

static struct slab *build(const struct entry_builder *b, const struct entry_header *h)
{
	struct slab *s = NULL;
	struct err e = { 0 };
	if (entry_builder_finish(b, h, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s->refs, 1);
	return s;
}

static void assert_hex(const struct slab *s, const char *hex)
{
	struct buf text = { 0 };
	for (size_t i = 0; i < s->len; i++)
		buf_printf(&text, "%02x", s->data[i]);
	assert_string_equal(buf_cstr(&text), hex);
	buf_fini(&text);
}

/* The layout, byte by byte, without and with an idempotency record. Logs hold it: it never changes. */
static void test_bytes_are_frozen(void **state)
{
	(void)state;
	struct entry_builder b = two_commands();
	struct slab *s = build(&b, &(struct entry_header){ .actor = STR_LIT("ann"), .origin = STR_LIT("n1") });
	entry_stamp_time(s, 0x0102030405060708u);
	assert_hex(s, "0100"
	              "1300"
	              "0807060504030201"
	              "03616e6e"
	              "026e31"
	              "0304000000"
	              "91a26162"
	              "1204000000"
	              "92a16ec3");
	slab_unref(s);
	s = build(&b, &with_idem);
	assert_hex(s, "0101"
	              "1300"
	              "0000000000000000"
	              "03616e6e"
	              "026e31"
	              "036b6579"
	              "8877665544332211"
	              "c900"
	              "07000000"
	              "7b2269223a017d"
	              "0304000000"
	              "91a26162"
	              "1204000000"
	              "92a16ec3");
	slab_unref(s);
	entry_builder_fini(&b);
}

/* What was put in comes out, command by command. */
static void test_decode_gives_it_back(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct entry_builder b = two_commands();
	assert_int_equal(b.max_type, CMD_MEMBER_DRAINING);
	assert_int_equal(entry_builder_size(&b), 18);
	struct slab *s = build(&b, &with_idem);
	entry_stamp_time_at(s->data, s->len, 77);
	struct entry_view v;
	struct err e;
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
	assert_int_equal(v.header.time_ms, 77);
	assert_int_equal(entry_time_ms(s->data, s->len), 77);
	assert_true(str_is(v.header.actor, "ann") && str_is(v.header.origin, "n1"));
	assert_true(v.header.has_idem && str_is(v.header.idem.key, "key"));
	assert_true(v.header.idem.request_hash == 0x1122334455667788u && v.header.idem.status == 201);
	assert_int_equal(v.count, 2);
	assert_int_equal(v.max_type, 18);
	assert_int_equal(entry_max_type(s->data, s->len), 18);

	const uint8_t *at = NULL;
	struct entry_command c;
	assert_true(entry_next(&v, &at, &c));
	assert_int_equal(c.type, CMD_TOPIC_DELETE);
	struct cmd_name name;
	assert_int_equal(entry_command_read(&c, &a, &name, &e), 0);
	assert_true(str_is(name.name, "ab"));
	assert_true(entry_next(&v, &at, &c));
	struct cmd_member_draining d;
	assert_int_equal(entry_command_read(&c, &a, &d, &e), 0);
	assert_true(str_is(d.id, "n") && d.draining);
	assert_false(entry_next(&v, &at, &c));

	/* The planned body, with the index where the mark was. */
	struct buf body = { 0 };
	entry_put_body(&body, v.header.idem.body, 4711);
	assert_string_equal(buf_cstr(&body), "{\"i\":4711}");
	buf_clear(&body);
	entry_put_body(&body,
	               STR_LIT("\x01"
	                       "a\x01\x01"),
	               5);
	assert_string_equal(buf_cstr(&body), "5a55");
	buf_clear(&body);
	entry_put_body(&body, (struct str){ 0 }, 5);
	assert_int_equal(body.len, 0);
	buf_fini(&body);
	slab_unref(s);
	entry_builder_fini(&b);
	arena_fini(&a);
}

/* A cleared builder makes a new entry of its own. */
static void test_builder_is_reusable(void **state)
{
	(void)state;
	struct entry_builder b = two_commands();
	entry_builder_clear(&b);
	assert_int_equal(entry_builder_size(&b), 0);
	entry_builder_add(&b, CMD_MEMBER_DEAD, &(struct cmd_name){ STR_LIT("n") });
	struct slab *s = build(&b, &(struct entry_header){ 0 });
	struct entry_view v;
	assert_int_equal(entry_decode(s->data, s->len, &v, NULL), 0);
	assert_true(v.count == 1 && v.max_type == CMD_MEMBER_DEAD && v.header.actor.len == 0);
	slab_unref(s);
	entry_builder_fini(&b);
	entry_builder_fini(&b);
}

/* What cannot be an entry is refused when it is built. */
static void test_builder_refuses(void **state)
{
	(void)state;
	struct slab *s = NULL;
	struct err e;
	struct entry_builder b;
	entry_builder_init(&b);
	assert_int_equal(entry_builder_finish(&b, &(struct entry_header){ 0 }, &s, &e), ERR_INVALID);
	entry_builder_fini(&b);
	b = two_commands();
	char longest[256];
	memset(longest, 'x', sizeof(longest));
	assert_int_equal(entry_builder_finish(&b, &(struct entry_header){ .actor = { longest, 256 } }, &s, &e),
	                 ERR_INVALID);
	assert_int_equal(entry_builder_finish(&b, &(struct entry_header){ .origin = { longest, 256 } }, &s, &e),
	                 ERR_INVALID);
	struct entry_header h = with_idem;
	h.idem.key = (struct str){ longest, 65 };
	assert_int_equal(entry_builder_finish(&b, &h, &s, &e), ERR_INVALID);
	h = with_idem;
	h.idem.status = 404;
	assert_int_equal(entry_builder_finish(&b, &h, &s, &e), ERR_INVALID);
	assert_null(s);
	h = (struct entry_header){ .actor = { longest, 255 }, .origin = { longest, 255 } };
	s = build(&b, &h);
	struct entry_view v;
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
	assert_int_equal(v.header.origin.len, 255);
	slab_unref(s);
	entry_builder_fini(&b);
}

/* The limit is exact: the largest entry is made and read, one byte more is not. */
static void test_size_limit_is_exact(void **state)
{
	(void)state;
	const size_t overhead =
	    14 + ENTRY_COMMAND_OVERHEAD + 1 + 2 + 1 + 5 + 1; /* header, command, array, t, v, bin, x */
	for (size_t over = 0; over < 2; over++) {
		const size_t n = ENTRY_PAYLOAD_MAX - overhead + over;
		char *schema = mem_zalloc(n);
		struct entry_builder b;
		entry_builder_init(&b);
		entry_builder_add(&b, CMD_SCHEMA_PUT_IF,
		                  &(struct cmd_schema_put_if){ STR_LIT("t"), 1, { schema, n }, STR_LIT("") });
		struct slab *s = NULL;
		const int rc = entry_builder_finish(&b, &(struct entry_header){ 0 }, &s, NULL);
		assert_int_equal(rc, over ? ERR_TOO_LARGE : 0);
		if (s) {
			struct entry_view v;
			assert_int_equal(s->len, ENTRY_PAYLOAD_MAX);
			assert_int_equal(entry_decode(s->data, s->len, &v, NULL), 0);
		}
		slab_unref(s);
		entry_builder_fini(&b);
		mem_free(schema);
	}
}

/* Newer formats and unknown types are told apart from damage: they stop a node, which keeps its data. */
static void test_newer_is_not_damaged(void **state)
{
	(void)state;
	struct entry_builder b = two_commands();
	struct slab *s = build(&b, &with_idem);
	struct entry_view v;
	struct err e;
	s->data[0] = 2;
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), ERR_VERSION);
	assert_int_equal(entry_time_ms(s->data, s->len), 0);
	s->data[0] = 1;
	s->data[1] |= 2;
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), ERR_VERSION);
	assert_int_equal(entry_max_type(s->data, s->len), 0);
	s->data[1] = ENTRY_FLAG_IDEM;
	static const uint8_t unknown[] = { 0, 38, 63, COMMAND_MAX + 1, 255 };
	for (size_t i = 0; i < sizeof(unknown); i++) {
		s->data[s->len - 9] = unknown[i]; /* the type of the last command */
		assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
		assert_int_equal(v.max_type, unknown[i] > 3 ? unknown[i] : 3);
		const uint8_t *at = NULL;
		struct entry_command c;
		struct arena a = { 0 };
		uint8_t out[COMMAND_PAYLOAD_SIZE];
		assert_true(entry_next(&v, &at, &c) && entry_next(&v, &at, &c));
		assert_int_equal(entry_command_read(&c, &a, out, &e), ERR_VERSION);
		arena_fini(&a);
	}
	slab_unref(s);
	entry_builder_fini(&b);
}

/* Every truncation is refused but the one that ends with the first command, and so are bytes behind the end, wrong
 * header lengths and names that are no text. */
static void test_damage_is_refused(void **state)
{
	(void)state;
	struct entry_builder b = two_commands();
	struct slab *s = build(&b, &with_idem);
	struct entry_view v;
	struct err e;
	for (size_t len = 0; len < s->len; len++) {
		uint8_t *copy = mem_dup(s->data, len ? len : 1);
		const int rc = entry_decode(copy, len, &v, &e); /* ASan sees a byte too far */
		assert_int_equal(rc, len == s->len - 9 ? 0 : ERR_CORRUPT);
		mem_free(copy);
	}
	uint8_t *longer = mem_zalloc(s->len + 1);
	memcpy(longer, s->data, s->len);
	assert_int_equal(entry_decode(longer, s->len + 1, &v, &e), ERR_CORRUPT);
	mem_free(longer);
	static const struct {
		size_t at;
		uint8_t value;
	} damages[] = { { 2, 0x14 }, { 3, 1 },     { 12, 4 },   { 13, 0xff }, { 14, 0 },   { 19, 0 },
		        { 19, 65 },  { 20, 0x1f }, { 31, 100 }, { 36, 0xff }, { 45, 0xff } };
	for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
		struct slab *d = slab_from(s->data, s->len);
		d->data[damages[i].at] = damages[i].value;
		if (entry_decode(d->data, d->len, &v, &e) != ERR_CORRUPT)
			fail_msg("byte %zu as %u was let through", damages[i].at, damages[i].value);
		slab_unref(d);
	}
	slab_unref(s);
	entry_builder_fini(&b);
}

/* Random damage: whatever is let through can be walked to its end. */
static void test_random_damage_is_survived(void **state)
{
	(void)state;
	struct entry_builder b = two_commands();
	struct slab *s = build(&b, &with_idem);
	struct rand rng;
	rand_seed(&rng, 8);
	struct arena a = { 0 };
	int passed = 0;
	for (int i = 0; i < 100000; i++) {
		struct slab *d = slab_from(s->data, s->len);
		for (uint64_t n = rand_below(&rng, 3) + 1; n; n--)
			d->data[rand_below(&rng, d->len)] ^= (uint8_t)(1u << rand_below(&rng, 8));
		struct entry_view v;
		if (entry_decode(d->data, d->len, &v, NULL) == 0) {
			const uint8_t *at = NULL;
			struct entry_command c;
			size_t count = 0;
			while (entry_next(&v, &at, &c)) {
				_Alignas(16) uint8_t out[COMMAND_PAYLOAD_SIZE];
				count++;
				const int rc = entry_command_read(&c, &a, out, NULL);
				assert_true(rc == 0 || rc == ERR_CORRUPT || rc == ERR_VERSION);
			}
			assert_int_equal(count, v.count);
			assert_ptr_equal(at, v.end);
			passed++;
		}
		slab_unref(d);
		arena_reset(&a);
	}
	assert_in_range(passed, 1000, 99000);
	arena_fini(&a);
	slab_unref(s);
	entry_builder_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_are_frozen),    cmocka_unit_test(test_decode_gives_it_back),
		cmocka_unit_test(test_builder_is_reusable), cmocka_unit_test(test_builder_refuses),
		cmocka_unit_test(test_size_limit_is_exact), cmocka_unit_test(test_newer_is_not_damaged),
		cmocka_unit_test(test_damage_is_refused),   cmocka_unit_test(test_random_damage_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
