/* Buffers, arenas and slabs: contents survive growth, ends may be called twice, counts decide who frees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slab.h"

/* What was put in comes out in order, over many growths. */
static void test_buf_grows_and_keeps(void **state)
{
	(void)state;
	struct buf b = { 0 };
	for (unsigned i = 0; i < 10000; i++)
		buf_put(&b, &(uint8_t){ (uint8_t)i }, 1);
	assert_int_equal(b.len, 10000);
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(b.data[i], (uint8_t)i);
	buf_fini(&b);
	buf_fini(&b);
	assert_null(b.data);
}

/* Numbers are written as printf would, at the edges too. */
static void test_buf_writes_numbers(void **state)
{
	(void)state;
	static const int64_t values[] = { 0, 1, -1, 9, 10, INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct buf got = { 0 };
		struct buf want = { 0 };
		buf_put_i64(&got, values[i]);
		buf_printf(&want, "%lld", (long long)values[i]);
		assert_string_equal(buf_cstr(&got), buf_cstr(&want));
		buf_fini(&got);
		buf_fini(&want);
	}
	struct buf b = { 0 };
	buf_put_u64(&b, UINT64_MAX);
	assert_string_equal(buf_cstr(&b), "18446744073709551615");
	buf_fini(&b);
}

/* The front can be dropped without losing the rest. */
static void test_buf_consumes_the_front(void **state)
{
	(void)state;
	struct buf b = { 0 };
	buf_puts(&b, "hello world");
	buf_consume(&b, 6);
	assert_string_equal(buf_cstr(&b), "world");
	buf_consume(&b, 5);
	assert_int_equal(b.len, 0);
	buf_consume(&b, 0);
	buf_fini(&b);
}

/* Everything handed out is aligned, apart from everything else, and survives until the reset. */
static void test_arena_gives_separate_memory(void **state)
{
	(void)state;
	struct arena a = { 0 };
	uint8_t *parts[200];
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 200; i++) {
			parts[i] = arena_alloc(&a, i * 7 + 1);
			assert_int_equal((uintptr_t)parts[i] % 16, 0);
			memset(parts[i], (int)i, i * 7 + 1);
		}
		for (size_t i = 0; i < 200; i++) {
			for (size_t k = 0; k < i * 7 + 1; k++)
				assert_int_equal(parts[i][k], (uint8_t)i);
		}
		arena_reset(&a);
		assert_int_equal(a.used, 0);
	}
	arena_fini(&a);
	arena_fini(&a);
}

/* A large request between small ones breaks neither, and a reset does not keep it. */
static void test_arena_takes_large_requests(void **state)
{
	(void)state;
	struct arena a = { 0 };
	char *small = arena_strdup(&a, "small");
	char *large = arena_zalloc(&a, 3u << 20);
	large[(3u << 20) - 1] = 'x';
	const char *text = arena_printf(&a, "%d-%s", 42, small);
	assert_string_equal(text, "42-small");
	assert_string_equal(small, "small");
	arena_reset(&a);
	assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
	arena_fini(&a);
}

/* The last holder frees; a block of a usual size is used again. */
static void test_slab_counts_its_holders(void **state)
{
	(void)state;
	struct slab *s = slab_from("payload", 7);
	assert_ptr_equal(slab_ref(s), s);
	slab_unref(s);
	assert_memory_equal(s->data, "payload", 7);
	slab_unref(s);
	struct slab *again = slab_new(7);
	assert_ptr_equal(again, s);
	assert_int_equal(again->len, 0);
	slab_unref(again);
	slab_unref(NULL);
	assert_null(slab_ref(NULL));
	slab_drain_pool();
}

/* Sizes that come from outside are refused, not aborted on. */
static void test_slab_refuses_the_impossible(void **state)
{
	(void)state;
	struct slab *big = slab_try_new(1u << 20);
	assert_non_null(big);
	assert_true(big->cap >= 1u << 20);
	slab_unref(big);
	assert_null(slab_try_new(SIZE_MAX / 4));
	slab_drain_pool();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf_grows_and_keeps),         cmocka_unit_test(test_buf_writes_numbers),
		cmocka_unit_test(test_buf_consumes_the_front),      cmocka_unit_test(test_arena_gives_separate_memory),
		cmocka_unit_test(test_arena_takes_large_requests),  cmocka_unit_test(test_slab_counts_its_holders),
		cmocka_unit_test(test_slab_refuses_the_impossible),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
