/* msgpack: what we write against msgpack-c's reader, what we accept against a slow walk, and hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <msgpack/unpack.h>

#include "base/rand.h"
#include "model/mp.h"

/* One value of ours, read by msgpack-c. */
static msgpack_object read_back(const struct buf *b, msgpack_unpacked *u)
{
	size_t off = 0;
	msgpack_unpacked_init(u);
	assert_int_equal(msgpack_unpack_next(u, (const char *)b->data, b->len, &off), MSGPACK_UNPACK_SUCCESS);
	assert_int_equal(off, b->len);
	return u->data;
}

/* Integers of every width are read back by msgpack-c and by us, and take the shortest form. */
static void test_integers_round_trip(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 1);
	for (int i = 0; i < 20000; i++) {
		const uint64_t v = rand_u64(&rng) >> rand_below(&rng, 64);
		const int64_t s = rand_below(&rng, 2) ? (int64_t)(v >> 1) : -(int64_t)(v >> 1);
		struct buf b = { 0 };
		struct mp_writer w = { .out = &b };
		mp_put_i64(&w, s);
		msgpack_unpacked u;
		const msgpack_object o = read_back(&b, &u);
		assert_true(o.type == (s < 0 ? MSGPACK_OBJECT_NEGATIVE_INTEGER : MSGPACK_OBJECT_POSITIVE_INTEGER));
		assert_true(o.via.i64 == s);
		msgpack_unpacked_destroy(&u);
		struct mp_reader r;
		mp_reader_init(&r, b.data, b.len);
		assert_int_equal(mp_peek(&r), MP_INT);
		assert_true(mp_read_i64(&r) == s);
		assert_true(mp_read_end(&r));
		const size_t want = s >= -32 && s < 128                 ? 1
		                    : s >= INT8_MIN && s <= UINT8_MAX   ? 2
		                    : s >= INT16_MIN && s <= UINT16_MAX ? 3
		                    : s >= INT32_MIN && s <= UINT32_MAX ? 5
		                                                        : 9;
		assert_int_equal(b.len, want);
		buf_clear(&b);
		mp_put_u64(&w, v);
		mp_reader_init(&r, b.data, b.len);
		assert_true(mp_read_u64(&r) == v);
		assert_true(mp_read_end(&r));
		buf_fini(&b);
	}
}

/* Strings, bytes, arrays and maps around each change of header width. */
static void test_lengths_round_trip(void **state)
{
	(void)state;
	static const size_t lengths[] = { 0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536 };
	static char text[65536];
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t n = lengths[i];
		struct buf b = { 0 };
		struct mp_writer w = { .out = &b };
		mp_put_array(&w, 4);
		mp_put_str(&w, (struct str){ text, n });
		mp_put_bin(&w, text, n);
		mp_put_array(&w, n);
		for (size_t k = 0; k < n; k++)
			mp_put_nil(&w);
		mp_put_map(&w, n);
		for (size_t k = 0; k < n; k++) {
			mp_put_u64(&w, k);
			mp_put_bool(&w, k & 1);
		}
		msgpack_unpacked u;
		const msgpack_object o = read_back(&b, &u);
		assert_int_equal(o.via.array.ptr[0].via.str.size, n);
		assert_int_equal(o.via.array.ptr[1].type, MSGPACK_OBJECT_BIN);
		assert_int_equal(o.via.array.ptr[2].via.array.size, n);
		assert_int_equal(o.via.array.ptr[3].via.map.size, n);
		msgpack_unpacked_destroy(&u);
		struct err e;
		assert_int_equal(mp_check(b.data, b.len, &e), 0);
		struct mp_reader r;
		mp_reader_init(&r, b.data, b.len);
		mp_read_array_of(&r, 4);
		assert_int_equal(mp_read_str(&r).len, n);
		assert_int_equal(mp_read_bin(&r).len, n);
		assert_int_equal(mp_read_array(&r), n);
		for (size_t k = 0; k < n; k++)
			assert_true(mp_read_nil(&r));
		assert_int_equal(mp_read_map(&r), n);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(mp_read_u32(&r), k);
			assert_true(mp_read_bool(&r) == (bool)(k & 1));
		}
		assert_true(mp_read_end(&r));
		buf_fini(&b);
	}
}

static int check_bytes(const char *bytes, size_t len)
{
	struct err e = { 0 };
	const int rc = mp_check(bytes, len, &e);
	assert_int_equal(rc, e.code);
	return rc;
}

#define CHECK(s) check_bytes(s, sizeof(s) - 1)

/* What claims more than there is, means nothing, goes on behind its end, or nests too deeply is refused. */
static void test_check_refuses_hostile(void **state)
{
	(void)state;
	assert_int_equal(CHECK(""), ERR_CORRUPT);
	assert_int_equal(CHECK("\xdd\xff\xff\xff\xff"), ERR_CORRUPT); /* four billion elements in five bytes */
	assert_int_equal(CHECK("\xdf\xff\xff\xff\xff"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xdb\xff\xff\xff\xff"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xc9\xff\xff\xff\xff\x01"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xc1"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xc0\xc0"), ERR_CORRUPT);
	assert_int_equal(CHECK("\x92\xc0"), ERR_CORRUPT);
	assert_int_equal(CHECK("\x81\xc0"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xcf\x00\x00"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xa3xy"), ERR_CORRUPT);
	assert_int_equal(CHECK("\x91\x92\xc0"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xd8\x01"), ERR_CORRUPT);
	assert_int_equal(CHECK("\xc0"), 0);
	assert_int_equal(CHECK("\x80"), 0);
	assert_int_equal(CHECK("\x92\x90\x81\xa1k\x90"), 0);
	assert_int_equal(CHECK("\xca\x00\x00\x00\x00"), 0);
	assert_int_equal(CHECK("\xd5\x01zz"), 0);
	char deep[MP_DEPTH_MAX + 2];
	memset(deep, 0x91, sizeof(deep));
	deep[MP_DEPTH_MAX - 1] = (char)0x90;
	assert_int_equal(check_bytes(deep, MP_DEPTH_MAX), 0);
	deep[MP_DEPTH_MAX - 1] = (char)0x91;
	deep[MP_DEPTH_MAX] = (char)0x90;
	assert_int_equal(check_bytes(deep, MP_DEPTH_MAX + 1), ERR_CORRUPT);
	deep[MP_DEPTH_MAX] = (char)0xc0;
	assert_int_equal(check_bytes(deep, MP_DEPTH_MAX + 1), 0);
}

/* The oracle: the specification's table, recursively. Returns the bytes behind one value, or NULL. */
static const uint8_t *slow_walk(const uint8_t *p, const uint8_t *end, int depth)
{
	if (p == end)
		return NULL;
	const uint8_t c = *p++;
	uint64_t bytes = 0;
	uint64_t values = 0;
	bool container = false;
	uint64_t n = 0;
	size_t width = 0;
	if (c >= 0xd9 && c <= 0xdb)
		width = (size_t)1 << (c - 0xd9);
	else if (c >= 0xc4 && c <= 0xc6)
		width = (size_t)1 << (c - 0xc4);
	else if (c >= 0xc7 && c <= 0xc9)
		width = (size_t)1 << (c - 0xc7);
	else if (c >= 0xdc && c <= 0xdf)
		width = c & 1 ? 4 : 2;
	for (size_t i = 0; i < width; i++) {
		if (p == end)
			return NULL;
		n = n * 256 + *p++;
	}
	if (c == 0xc1)
		return NULL;
	if (c <= 0x7f || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3) {
		bytes = 0;
	} else if (c <= 0x8f || c == 0xde || c == 0xdf) {
		container = true;
		values = 2 * (c <= 0x8f ? (uint64_t)(c & 15) : n);
	} else if (c <= 0x9f || c == 0xdc || c == 0xdd) {
		container = true;
		values = c <= 0x9f ? (uint64_t)(c & 15) : n;
	} else if (c <= 0xbf) {
		bytes = c & 31;
	} else if (c >= 0xc7 && c <= 0xc9) {
		bytes = n + 1;
	} else if (width) {
		bytes = n;
	} else if (c == 0xca) {
		bytes = 4;
	} else if (c == 0xcb) {
		bytes = 8;
	} else if (c >= 0xcc && c <= 0xd3) {
		bytes = 1u << ((c - 0xcc) & 3);
	} else {
		bytes = 1 + (1u << (c - 0xd4));
	}
	if (container && depth == MP_DEPTH_MAX)
		return NULL;
	if (bytes > (uint64_t)(end - p) || values > (uint64_t)(end - p))
		return NULL;
	p += bytes;
	for (; p && values; values--)
		p = slow_walk(p, end, depth + container);
	return p;
}

/* Random bytes: mp_check agrees with the slow walk, msgpack-c reads all that mp_check lets through, and the reader's
 * skip ends where the walk ends. */
static void test_check_against_slow(void **state)
{
	(void)state;
	static const uint8_t likely[] = { 0x91, 0x92, 0x81, 0x82, 0xa1, 0xa2, 0xc0, 0xc4, 0xd9, 0xdc,
		                          0xde, 0x01, 0x00, 0x02, 0xcc, 0xd0, 0xca, 0xd4, 0xd8, 0xc7,
		                          0x90, 0x80, 0xdd, 0xdf, 0xc5, 0xda, 0xff, 0xc1 };
	struct rand rng;
	rand_seed(&rng, 9);
	int accepted = 0;
	for (int i = 0; i < 300000; i++) {
		uint8_t b[24];
		const size_t len = rand_below(&rng, sizeof(b)) + 1;
		for (size_t k = 0; k < len; k++)
			b[k] = rand_below(&rng, 5) ? likely[rand_below(&rng, sizeof(likely))] : (uint8_t)rand_u64(&rng);
		const uint8_t *end = slow_walk(b, b + len, 0);
		const bool ok = end == b + len;
		assert_int_equal(mp_check(b, len, NULL), ok ? 0 : ERR_CORRUPT);
		if (end) {
			struct mp_reader r;
			mp_reader_init(&r, b, len);
			mp_read_skip(&r);
			assert_true(mp_read_ok(&r) && r.p == end);
		}
		if (!ok)
			continue;
		accepted++;
		msgpack_unpacked u;
		msgpack_unpacked_init(&u);
		size_t off = 0;
		assert_int_equal(msgpack_unpack_next(&u, (const char *)b, len, &off), MSGPACK_UNPACK_SUCCESS);
		assert_int_equal(off, len);
		msgpack_unpacked_destroy(&u);
	}
	assert_in_range(accepted, 3000, 290000);
}

/* The first failure stays, later reads give zero values, and a wrong type or range is a failure. */
static void test_reader_keeps_first_failure(void **state)
{
	(void)state;
	struct mp_reader r;
	mp_reader_init(&r, "\xa1x\x05", 3);
	assert_int_equal(mp_read_i64(&r), 0);
	assert_string_equal(r.error, "expected an integer");
	assert_null(mp_read_str(&r).p);
	assert_int_equal(mp_read_u64(&r), 0);
	assert_false(mp_read_bool(&r));
	assert_false(mp_read_nil(&r));
	assert_int_equal(mp_read_array(&r), 0);
	assert_int_equal(mp_peek(&r), MP_NONE);
	assert_string_equal(r.error, "expected an integer");
	assert_false(mp_read_end(&r));

	mp_reader_init(&r, "\xff", 1);
	assert_int_equal(mp_read_u64(&r), 0);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
	assert_int_equal(mp_read_i64(&r), 0);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9);
	assert_int_equal(mp_read_u32(&r), 0);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\xa2\xc3\x28", 3); /* not UTF-8 */
	assert_null(mp_read_str(&r).p);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\x92\xc0\xc0", 3);
	mp_read_array_of(&r, 3);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\x92\xc0", 2); /* one element short: a caller must not make room for two */
	assert_int_equal(mp_read_array(&r), 0);
	assert_false(mp_read_ok(&r));
	mp_reader_init(&r, "\xc0\xc0", 2);
	assert_true(mp_read_nil(&r));
	assert_false(mp_read_end(&r)); /* bytes are left */
	mp_read_fail(&r, "mine");
	assert_string_equal(r.error, "mine");
	mp_reader_init(&r, NULL, 0);
	assert_true(mp_read_end(&r));
	assert_int_equal(mp_peek(&r), MP_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers_round_trip),        cmocka_unit_test(test_lengths_round_trip),
		cmocka_unit_test(test_check_refuses_hostile),      cmocka_unit_test(test_check_against_slow),
		cmocka_unit_test(test_reader_keeps_first_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
