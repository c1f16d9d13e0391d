/* The head scanner and the parser behind it: what is refused, what is taken, and that it does not matter how the bytes
 * were cut on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "http/head.h"
#include "http/scan.h"

#define HOST "Host: a\r\n"

/* Scans the bytes in one piece. */
static enum http_scan_result scan(const char *bytes, size_t len, struct http_scan *s)
{
	memset(s, 0, sizeof(*s));
	return http_scan_head(s, (const uint8_t *)bytes, len);
}

static const struct {
	const char *what, *bytes;
	int status;
} refused[] = {
	{ "a bare LF", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400 },
	{ "a bare LF behind the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400 },
	{ "a bare LF as the last line", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400 },
	{ "a bare CR", "GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", 400 },
	{ "a folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400 },
	{ "a line folded by a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n", 400 },
	{ "a blank before the first header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400 },
	{ "a blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400 },
	{ "a tab before the colon", "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", 400 },
	{ "no colon", "GET / HTTP/1.1\r\n" HOST "nothing\r\n\r\n", 400 },
	{ "no name", "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", 400 },
	{ "a name with a byte no name has", "GET / HTTP/1.1\r\n" HOST "X(y): z\r\n\r\n", 400 },
	{ "no Host", "GET / HTTP/1.1\r\nX: y\r\n\r\n", 400 },
	{ "two Hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400 },
	{ "a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400 },
	{ "a Host with a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400 },
	{ "length and chunked", "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
	  400 },
	{ "chunked and length", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
	  400 },
	{ "two lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nContent-Length: 4\r\n\r\n", 400 },
	{ "a list of lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 4, 4\r\n\r\n", 400 },
	{ "a length with a sign", "POST / HTTP/1.1\r\n" HOST "Content-Length: +4\r\n\r\n", 400 },
	{ "a negative length", "POST / HTTP/1.1\r\n" HOST "Content-Length: -4\r\n\r\n", 400 },
	{ "a hex length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x4\r\n\r\n", 400 },
	{ "an empty length", "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400 },
	{ "a length that wraps", "POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551647\r\n\r\n", 400 },
	{ "a coding twice",
	  "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ "xchunked", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 501 },
	{ "gzip, chunked", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501 },
	{ "chunked, identity", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n", 501 },
	{ "chunked in 1.0", "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400 },
	{ "an upgrade", "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 501 },
	{ "CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501 },
	{ "another expectation", "POST / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", 417 },
	{ "HTTP/0.9", "GET /\r\n\r\n", 400 },
	{ "HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n", 505 },
	{ "HTTP/2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", 505 },
	{ "HTTP/2's own beginning", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
	{ "http/1.1 in small letters", "GET / http/1.1\r\n" HOST "\r\n", 400 },
	{ "HTTP/1.10", "GET / HTTP/1.10\r\n" HOST "\r\n", 400 },
	{ "two blanks before the target", "GET  / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "two blanks before the version", "GET /  HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "a blank behind the version", "GET / HTTP/1.1 \r\n" HOST "\r\n", 400 },
	{ "a tab for a blank", "GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "a target with a control byte", "GET /\1 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "a target beyond ASCII", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "a blank first", " GET / HTTP/1.1\r\n" HOST "\r\n", 400 },
};

/* Each rule refuses, and with its own status. */
static void test_scan_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct http_scan s;

		if (scan(refused[i].bytes, strlen(refused[i].bytes), &s) != HTTP_SCAN_REFUSED)
			fail_msg("%s was not refused", refused[i].what);
		if (s.refusal.status != refused[i].status)
			fail_msg("%s: status %d", refused[i].what, s.refusal.status);
		assert_non_null(s.refusal.text);
		assert_non_null(s.refusal.code);
	}
}

/* NUL bytes do not end the look at a line. */
static void test_scan_refuses_nul(void **state)
{
	static const char in_value[] = "GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n";
	static const char in_target[] = "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n";
	static const char in_name[] = "GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n";
	struct http_scan s;

	(void)state;
	assert_int_equal(scan(in_value, sizeof(in_value) - 1, &s), HTTP_SCAN_REFUSED);
	assert_int_equal(scan(in_target, sizeof(in_target) - 1, &s), HTTP_SCAN_REFUSED);
	assert_int_equal(scan(in_name, sizeof(in_name) - 1, &s), HTTP_SCAN_REFUSED);
}

static const char full[] =
    "\r\nPOST /v1/topics?x=1 HTTP/1.1\r\nHost: a:7942\r\nContent-Type: application/json \r\n"
    "X-Veena-Client:\r\nConnection: x, Close\r\ncontent-LENGTH: 17\r\nExpect: 100-Continue\r\n\r\nbody";

static void check_full(const struct http_scan *s)
{
	assert_int_equal(s->start, 2);
	assert_int_equal(s->end, sizeof(full) - 1 - 4);
	assert_int_equal(s->minor, 1);
	assert_true(s->has_length);
	assert_int_equal(s->length, 17);
	assert_false(s->chunked);
	assert_true(s->close);
	assert_true(s->expects_continue);
	assert_false(http_scan_keeps_alive(s));
}

/* What decides framing is read right. */
static void test_scan_reads_framing(void **state)
{
	struct http_scan s;

	(void)state;
	assert_int_equal(scan(full, sizeof(full) - 1, &s), HTTP_SCAN_DONE);
	check_full(&s);
	assert_int_equal(scan("GET / HTTP/1.0\r\n\r\n", 18, &s), HTTP_SCAN_DONE);
	assert_false(http_scan_keeps_alive(&s));
	assert_int_equal(scan("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 42, &s), HTTP_SCAN_DONE);
	assert_true(http_scan_keeps_alive(&s));
	assert_int_equal(scan("POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding:\tChunked \r\n\r\n", 54, &s),
	                 HTTP_SCAN_MORE);
}

/* Cut at every byte, and byte by byte: the same result. The bytes move between the calls, as in a growing buffer. */
static void test_scan_at_every_split(void **state)
{
	struct http_scan s;
	size_t len = sizeof(full) - 1;

	(void)state;
	for (size_t cut = 0; cut <= len; cut++) {
		char *first = mem_dup(full, cut ? cut : 1);

		memset(&s, 0, sizeof(s));
		enum http_scan_result r = http_scan_head(&s, (const uint8_t *)first, cut);

		mem_free(first);
		assert_int_equal(r, cut < len - 4 ? HTTP_SCAN_MORE : HTTP_SCAN_DONE);
		assert_int_equal(http_scan_head(&s, (const uint8_t *)full, len), HTTP_SCAN_DONE);
		check_full(&s);
	}
	memset(&s, 0, sizeof(s));
	for (size_t n = 1; n < len - 4; n++)
		assert_int_equal(http_scan_head(&s, (const uint8_t *)full, n), HTTP_SCAN_MORE);
	assert_int_equal(http_scan_head(&s, (const uint8_t *)full, len), HTTP_SCAN_DONE);
	check_full(&s);
}

/* A refusal does not depend on the cut either. */
static void test_scan_refuses_at_every_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		size_t len = strlen(refused[i].bytes);
		struct http_scan s = { 0 };
		enum http_scan_result r = HTTP_SCAN_MORE;

		for (size_t n = 1; n <= len && r == HTTP_SCAN_MORE; n++)
			r = http_scan_head(&s, (const uint8_t *)refused[i].bytes, n);
		assert_int_equal(r, HTTP_SCAN_REFUSED);
		assert_int_equal(s.refusal.status, refused[i].status);
	}
}

/* Bounds: target, head, number of lines; each with the largest that passes beside the smallest that does not. */
static void test_scan_bounds(void **state)
{
	static char bytes[HTTP_HEAD_MAX + 4096];
	struct http_scan s;
	size_t n;

	(void)state;
	for (int over = 0; over <= 1; over++) {
		size_t target = HTTP_TARGET_MAX + (size_t)over;

		n = (size_t)snprintf(bytes, sizeof(bytes), "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", (int)target - 1, 0);
		assert_int_equal(scan(bytes, n, &s), over ? HTTP_SCAN_REFUSED : HTTP_SCAN_DONE);
		if (over)
			assert_int_equal(s.refusal.status, 414);
	}
	/* A request line that never ends is refused before 64 KiB of it have come. */
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(scan(bytes, HTTP_TARGET_MAX + 65, &s), HTTP_SCAN_REFUSED);
	assert_int_equal(s.refusal.status, 414);

	for (int over = 0; over <= 1; over++) {
		n = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\n");
		for (int i = 1; i < HTTP_FIELDS_MAX + over; i++)
			n += (size_t)snprintf(bytes + n, sizeof(bytes) - n, "X: y\r\n");
		n += (size_t)snprintf(bytes + n, sizeof(bytes) - n, "\r\n");
		assert_int_equal(scan(bytes, n, &s), over ? HTTP_SCAN_REFUSED : HTTP_SCAN_DONE);
		if (over)
			assert_int_equal(s.refusal.status, 431);
	}
	for (int over = 0; over <= 1; over++) {
		static const char tail[] = "\r\n\r\n";
		size_t total = HTTP_HEAD_MAX + (size_t)over;

		n = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\nX: ");
		memset(bytes + n, 'y', total - n);
		memcpy(bytes + total - 4, tail, 4);
		assert_int_equal(scan(bytes, total, &s), over ? HTTP_SCAN_REFUSED : HTTP_SCAN_DONE);
		if (over)
			assert_int_equal(s.refusal.status, 431);
	}
}

/* ---- the parser behind the scan ---- */

static bool parse(const char *bytes, struct http_head *h, struct http_refusal *why)
{
	struct http_scan s;

	assert_int_equal(scan(bytes, strlen(bytes), &s), HTTP_SCAN_DONE);
	return http_head_parse(&s, (const uint8_t *)bytes, h, why);
}

static void assert_span(const char *bytes, struct http_span span, const char *want)
{
	struct str s = http_span_str((const uint8_t *)bytes, span);

	assert_true(span.set);
	assert_int_equal(s.len, strlen(want));
	assert_memory_equal(s.p, want, s.len);
}

/* Method, target and the kept fields, by their offsets in the head. */
static void test_head_reads_fields(void **state)
{
	struct http_head h;
	struct http_refusal why;

	(void)state;
	assert_true(parse(full, &h, &why));
	assert_int_equal(h.verb, HTTP_VERB_POST);
	assert_false(h.is_head);
	assert_span(full, h.target, "/v1/topics?x=1");
	assert_span(full, h.fields[HTTP_FIELD_CONTENT_TYPE], "application/json");
	assert_span(full, h.fields[HTTP_FIELD_CLIENT], "");
	assert_false(h.fields[HTTP_FIELD_IF_MATCH].set);
}

/* Methods that are served, HEAD as GET; other methods of HTTP, which the path refuses; and no methods at all. */
static void test_head_knows_methods(void **state)
{
	static const struct {
		const char *method;
		int verb; /* -1: refused */
	} cases[] = {
		{ "GET", HTTP_VERB_GET },
		{ "HEAD", HTTP_VERB_GET },
		{ "POST", HTTP_VERB_POST },
		{ "PUT", HTTP_VERB_PUT },
		{ "PATCH", HTTP_VERB_PATCH },
		{ "DELETE", HTTP_VERB_DELETE },
		{ "OPTIONS", HTTP_VERB_OTHER },
		{ "TRACE", HTTP_VERB_OTHER },
		{ "PROPFIND", HTTP_VERB_OTHER },
		{ "BREW", -1 },
		{ "get", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char bytes[128];
		struct http_head h;
		struct http_refusal why;

		snprintf(bytes, sizeof(bytes), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].method);
		if (parse(bytes, &h, &why) != (cases[i].verb >= 0))
			fail_msg("%s", cases[i].method);
		if (cases[i].verb >= 0) {
			assert_int_equal(h.verb, cases[i].verb);
			assert_int_equal(h.is_head, strcmp(cases[i].method, "HEAD") == 0);
		} else {
			assert_int_equal(why.status, 501);
		}
	}
}

/* The absolute form loses its host; what is neither form is refused. */
static void test_head_reads_target_forms(void **state)
{
	static const struct {
		const char *target, *want;
	} cases[] = {
		{ "/a?b", "/a?b" },      { "http://host:1/a?b", "/a?b" },
		{ "HTTP://host/", "/" }, { "http://host", NULL },
		{ "*", NULL },           { "a", NULL },
		{ "//a", "//a" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char bytes[128];
		struct http_head h;
		struct http_refusal why;

		snprintf(bytes, sizeof(bytes), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].target);
		if (parse(bytes, &h, &why) != (cases[i].want != NULL))
			fail_msg("%s", cases[i].target);
		if (cases[i].want)
			assert_span(bytes, h.target, cases[i].want);
	}
}

/* A field that decides something may stand once. */
static void test_head_refuses_repeated_fields(void **state)
{
	struct http_head h;
	struct http_refusal why;

	(void)state;
	assert_false(parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Type: a\r\nContent-type: b\r\n\r\n", &h, &why));
	assert_int_equal(why.status, 400);
	assert_false(parse("GET / HTTP/1.1\r\nHost: a\r\nIf-Match: a\r\nIf-Match: b\r\n\r\n", &h, &why));
	assert_true(parse("GET / HTTP/1.1\r\nHost: a\r\nAccept: a\r\nAccept: b\r\n\r\n", &h, &why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scan_refuses),
		cmocka_unit_test(test_scan_refuses_nul),
		cmocka_unit_test(test_scan_reads_framing),
		cmocka_unit_test(test_scan_at_every_split),
		cmocka_unit_test(test_scan_refuses_at_every_split),
		cmocka_unit_test(test_scan_bounds),
		cmocka_unit_test(test_head_reads_fields),
		cmocka_unit_test(test_head_knows_methods),
		cmocka_unit_test(test_head_reads_target_forms),
		cmocka_unit_test(test_head_refuses_repeated_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
