/* The chunk reader: strict, in place, and indifferent to how the bytes were cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/chunk.h"

/* Feeds `raw` in pieces of `step` bytes, decoding in place as a connection does. */
static enum http_chunk_result feed(const char *raw, size_t len, size_t step, char *body, size_t *body_len,
                                   size_t *taken, struct http_chunk *c)
{
	enum http_chunk_result r = HTTP_CHUNK_MORE;

	memset(c, 0, sizeof(*c));
	*body_len = *taken = 0;
	while (r == HTTP_CHUNK_MORE && *taken < len) {
		uint8_t piece[256];
		size_t n = len - *taken < step ? len - *taken : step, used, put;

		memcpy(piece, raw + *taken, n);
		r = http_chunk_read(c, piece, n, &used, piece, &put);
		memcpy(body + *body_len, piece, put);
		*body_len += put;
		*taken += used;
		if (r == HTTP_CHUNK_MORE)
			assert_int_equal(used, n);
	}
	return r;
}

/* The payload, whatever the pieces; what stands behind the body is left alone. */
static void test_chunk_reads_at_every_step(void **state)
{
	static const char raw[] = "3\r\nabc\r\n00A;ext=1;y\r\n0123456789\r\n1\r\n!\r\n0\r\n\r\nGET /next";
	static const char want[] = "abc0123456789!";
	size_t end = (size_t)(strstr(raw, "GET") - raw);

	(void)state;
	for (size_t step = 1; step < sizeof(raw); step++) {
		struct http_chunk c;
		char body[128];
		size_t n, taken;

		assert_int_equal(feed(raw, sizeof(raw) - 1, step, body, &n, &taken, &c), HTTP_CHUNK_DONE);
		assert_int_equal(n, sizeof(want) - 1);
		assert_memory_equal(body, want, n);
		assert_int_equal(taken, end);
		assert_int_equal(c.total, n);
	}
}

/* An empty body is one line and the empty line behind it. */
static void test_chunk_reads_empty_body(void **state)
{
	struct http_chunk c;
	char body[16];
	size_t n, taken;

	(void)state;
	assert_int_equal(feed("0\r\n\r\n", 5, 1, body, &n, &taken, &c), HTTP_CHUNK_DONE);
	assert_int_equal(n, 0);
	assert_int_equal(feed("000;x\r\n\r\n", 9, 2, body, &n, &taken, &c), HTTP_CHUNK_DONE);
}

static const struct {
	const char *what, *raw;
	int status;
} refused[] = {
	{ "0x10", "0x10\r\n", 400 },
	{ "a negative size", "-1\r\n", 400 },
	{ "a plus", "+1\r\n", 400 },
	{ "17 digits", "00000000000000001\r\n", 400 },
	{ "no digits", "\r\n", 400 },
	{ "no digits before an extension", ";x\r\n", 400 },
	{ "a blank before the size", " 1\r\nx\r\n", 400 },
	{ "a blank behind the size", "1 \r\nx\r\n", 400 },
	{ "LF without CR", "1\nx\r\n", 400 },
	{ "CR without LF", "1\rx", 400 },
	{ "data longer than its size", "1\r\nxy\r\n", 400 },
	{ "LF without CR behind data", "1\r\nx\n", 400 },
	{ "a trailer", "0\r\nX: y\r\n\r\n", 400 },
	{ "LF without CR at the end", "0\r\n\n", 400 },
	{ "a control byte in an extension", "1;\1\r\n", 400 },
	{ "a size beyond the limit", "100001\r\n", 413 },
	{ "a size of 64 bits", "ffffffffffffffff\r\n", 413 },
	{ "a sum beyond the limit", "1\r\nx\r\n100000\r\n", 413 },
};

/* Each rule refuses, in one piece and byte by byte. */
static void test_chunk_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		for (size_t step = 1; step <= 64; step += 63) {
			struct http_chunk c;
			char body[128];
			size_t n, taken;

			if (feed(refused[i].raw, strlen(refused[i].raw), step, body, &n, &taken, &c) !=
			    HTTP_CHUNK_REFUSED)
				fail_msg("%s was not refused", refused[i].what);
			if (c.refusal.status != refused[i].status)
				fail_msg("%s: status %d", refused[i].what, c.refusal.status);
		}
	}
}

/* The longest extension passes, one byte more does not; and each chunk has its own. */
static void test_chunk_bounds_extensions(void **state)
{
	struct http_chunk c;
	char raw[1024], body[16];
	size_t n, taken;

	(void)state;
	for (int over = 0; over <= 1; over++) {
		int len = snprintf(raw, sizeof(raw), "1;%0*d\r\nx\r\n1;%0*d\r\ny\r\n0\r\n\r\n", HTTP_CHUNK_EXT_MAX, 0,
		                   HTTP_CHUNK_EXT_MAX + over, 0);

		assert_int_equal(feed(raw, (size_t)len, 100, body, &n, &taken, &c),
		                 over ? HTTP_CHUNK_REFUSED : HTTP_CHUNK_DONE);
	}
}

/* Exactly the limit passes. */
static void test_chunk_takes_whole_limit(void **state)
{
	static uint8_t raw[HTTP_BODY_MAX + 64], body[HTTP_BODY_MAX];
	struct http_chunk c = { 0 };
	size_t n, used, put;

	(void)state;
	n = (size_t)snprintf((char *)raw, sizeof(raw), "100000\r\n");
	memset(raw + n, 'x', HTTP_BODY_MAX);
	n += HTTP_BODY_MAX;
	memcpy(raw + n, "\r\n0\r\n\r\n", 7);
	n += 7;
	assert_int_equal(http_chunk_read(&c, raw, n, &used, body, &put), HTTP_CHUNK_DONE);
	assert_int_equal(put, HTTP_BODY_MAX);
	assert_int_equal(used, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_reads_at_every_step),
		cmocka_unit_test(test_chunk_reads_empty_body),
		cmocka_unit_test(test_chunk_refuses),
		cmocka_unit_test(test_chunk_bounds_extensions),
		cmocka_unit_test(test_chunk_takes_whole_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
