/* Line by line: the request line, then header lines, then the empty line. Each is looked at when its LF has arrived. */
#include "http/scan.h"

#include <string.h>
#include <strings.h>

#include "base/bytes.h"

/* RFC 9110, 5.6.2: the bytes of a token. */
static const char token_marks[] = "!#$%&'*+-.^_`|~";

static bool is_token_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != 0 && strchr(token_marks, c) != NULL);
}

static bool refuse(struct http_scan *s, int status, const char *code, const char *text)
{
	s->refusal = (struct http_refusal){ status, code, text };
	return false;
}

static bool refuse_bad(struct http_scan *s, const char *text)
{
	return refuse(s, 400, "bad_request", text);
}

static bool is_nocase(struct str s, const char *z)
{
	return s.len == strlen(z) && strncasecmp(s.p, z, s.len) == 0;
}

static struct str trim(struct str s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* Cuts the next element off a comma-separated list. */
static struct str next_element(struct str *list)
{
	const char *comma = list->len ? memchr(list->p, ',', list->len) : NULL;
	struct str e = { list->p, comma ? (size_t)(comma - list->p) : list->len };

	list->p += comma ? e.len + 1 : e.len;
	list->len -= comma ? e.len + 1 : e.len;
	return trim(e);
}

/* ---- the request line ---- */

static bool check_version(struct http_scan *s, struct str v)
{
	if (v.len != 8 || memcmp(v.p, "HTTP/", 5) != 0 || v.p[5] < '0' || v.p[5] > '9' || v.p[6] != '.' ||
	    v.p[7] < '0' || v.p[7] > '9')
		return refuse_bad(s, "the request line does not end in an HTTP version; send METHOD TARGET HTTP/1.1");
	if (v.p[5] != '1' || v.p[7] > '1')
		return refuse(s, 505, "http_version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
	s->minor = (unsigned)(v.p[7] - '0');
	return true;
}

static bool check_request_line(struct http_scan *s, struct str line)
{
	const char *sp = memchr(line.p, ' ', line.len);
	const char *sp2 = sp ? memchr(sp + 1, ' ', line.len - (size_t)(sp + 1 - line.p)) : NULL;

	if (!sp || !sp2)
		return refuse_bad(s, "the request line is not METHOD TARGET HTTP/1.1 with single blanks");
	struct str method = { line.p, (size_t)(sp - line.p) };
	struct str target = { sp + 1, (size_t)(sp2 - sp - 1) };
	struct str version = { sp2 + 1, line.len - (size_t)(sp2 + 1 - line.p) };

	if (method.len == 0 || target.len == 0)
		return refuse_bad(s, "the request line lacks a method or a target");
	for (size_t i = 0; i < method.len; i++) {
		if (!is_token_byte((uint8_t)method.p[i]))
			return refuse_bad(s, "the method holds a byte that no method has");
	}
	if (target.len > HTTP_TARGET_MAX)
		return refuse(s, 414, "uri_too_long", "the request target is longer than 8 KiB");
	for (size_t i = 0; i < target.len; i++) {
		uint8_t c = (uint8_t)target.p[i];

		if (c < 0x21 || c > 0x7e)
			return refuse_bad(s, "the request target holds a byte that must be percent-encoded");
	}
	if (!check_version(s, version))
		return false;
	if (str_is(method, "CONNECT"))
		return refuse(s, 501, "not_supported", "this server is no proxy: CONNECT is not supported");
	return true;
}

/* ---- header lines that decide framing ---- */

/* Digits, and nothing of what a client might want beside them: sign, blank, list. */
static bool check_length(struct http_scan *s, struct str v)
{
	if (s->has_length)
		return refuse_bad(s, "Content-Length is given twice");
	if (v.len == 0 || v.len > 19)
		return refuse_bad(s, "Content-Length is not a number");
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return refuse_bad(s, "Content-Length is not a number");
		s->length = s->length * 10 + (uint64_t)(v.p[i] - '0');
	}
	s->has_length = true;
	return true;
}

static bool check_coding(struct http_scan *s, struct str v)
{
	if (s->chunked)
		return refuse_bad(s, "Transfer-Encoding is given twice");
	if (!is_nocase(v, "chunked"))
		return refuse(s, 501, "not_supported", "the only transfer coding taken here is chunked, alone");
	s->chunked = true;
	return true;
}

static bool check_host(struct http_scan *s, struct str v)
{
	s->hosts++;
	if (s->hosts > 1)
		return refuse_bad(s, "Host is given twice");
	for (size_t i = 0; i < v.len; i++) {
		uint8_t c = (uint8_t)v.p[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"#,/<>?@\\^`{|}", c))
			return refuse_bad(s, "Host is not host or host:port");
	}
	return true;
}

static bool check_connection(struct http_scan *s, struct str v)
{
	while (v.len > 0) {
		struct str e = next_element(&v);

		if (is_nocase(e, "close"))
			s->close = true;
		else if (is_nocase(e, "keep-alive"))
			s->keep_alive = true;
	}
	return true;
}

static bool check_expect(struct http_scan *s, struct str v)
{
	if (!is_nocase(v, "100-continue"))
		return refuse(s, 417, "not_supported", "the only expectation met here is 100-continue");
	s->expects_continue = true;
	return true;
}

static bool check_upgrade(struct http_scan *s, struct str v)
{
	(void)v;
	return refuse(s, 501, "not_supported",
	              "this server speaks HTTP/1.1 only and does not upgrade; leave Upgrade out");
}

static const struct {
	const char *name;
	bool (*check)(struct http_scan *s, struct str value);
} framing_fields[] = {
	{ "content-length", check_length },
	{ "transfer-encoding", check_coding },
	{ "host", check_host },
	{ "connection", check_connection },
	{ "expect", check_expect },
	{ "upgrade", check_upgrade },
};

static bool check_field(struct http_scan *s, struct str line)
{
	size_t name_len = 0;

	if (++s->fields > HTTP_FIELDS_MAX)
		return refuse(s, 431, "headers_too_large", "more than 100 header lines");
	if (line.p[0] == ' ' || line.p[0] == '\t')
		return refuse_bad(s, "a header line begins with a blank: folded lines are not taken");
	while (name_len < line.len && is_token_byte((uint8_t)line.p[name_len]))
		name_len++;
	if (name_len == 0 || name_len == line.len || line.p[name_len] != ':')
		return refuse_bad(s, "a header line is not NAME: VALUE with the colon right behind the name");
	for (size_t i = name_len + 1; i < line.len; i++) {
		uint8_t c = (uint8_t)line.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return refuse_bad(s, "a header line holds a control byte");
	}

	struct str name = { line.p, name_len };
	struct str value = trim((struct str){ line.p + name_len + 1, line.len - name_len - 1 });

	for (size_t i = 0; i < sizeof(framing_fields) / sizeof(framing_fields[0]); i++) {
		if (is_nocase(name, framing_fields[i].name))
			return framing_fields[i].check(s, value);
	}
	return true;
}

/* ---- the whole ---- */

static bool check_head(struct http_scan *s)
{
	if (s->chunked && s->has_length)
		return refuse_bad(s, "Content-Length and Transfer-Encoding stand together");
	if (s->chunked && s->minor == 0)
		return refuse_bad(s, "HTTP/1.0 knows no chunked coding");
	if (s->hosts == 0 && s->minor >= 1)
		return refuse_bad(s, "Host is missing");
	return true;
}

/* `line` is without its CR LF. True: go on; the head's end sets s->end. */
static bool take_line(struct http_scan *s, struct str line, size_t next)
{
	if (!s->has_request_line) {
		if (line.len == 0) {
			/* RFC 9112, 2.2: one empty line before a request is passed over. */
			if (s->start != 0)
				return refuse_bad(s, "empty lines stand where a request line should");
			s->start = next;
			return true;
		}
		s->has_request_line = true;
		return check_request_line(s, line);
	}
	if (line.len == 0) {
		s->end = next;
		return check_head(s);
	}
	return check_field(s, line);
}

enum http_scan_result http_scan_head(struct http_scan *s, const uint8_t *bytes, size_t len)
{
	size_t limit = len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX;

	while (s->end == 0) {
		const uint8_t *lf = limit > s->seen ? memchr(bytes + s->seen, '\n', limit - s->seen) : NULL;

		if (!lf) {
			s->seen = limit;
			break;
		}
		size_t at = (size_t)(lf - bytes);
		struct str line = { (const char *)bytes + s->line, at - s->line };

		if (line.len == 0 || line.p[line.len - 1] != '\r') {
			refuse_bad(s, "a line ends in LF without CR");
			return HTTP_SCAN_REFUSED;
		}
		line.len--;
		s->seen = s->line = at + 1;
		if (!take_line(s, line, at + 1))
			return HTTP_SCAN_REFUSED;
	}
	if (s->end != 0)
		return HTTP_SCAN_DONE;
	if (!s->has_request_line && s->seen - s->start > HTTP_TARGET_MAX + 64) {
		refuse(s, 414, "uri_too_long", "the request line is longer than 8 KiB");
		return HTTP_SCAN_REFUSED;
	}
	if (len >= HTTP_HEAD_MAX) {
		refuse(s, 431, "headers_too_large", "the request's head is longer than 64 KiB");
		return HTTP_SCAN_REFUSED;
	}
	return HTTP_SCAN_MORE;
}

bool http_scan_keeps_alive(const struct http_scan *s)
{
	return !s->close && (s->minor >= 1 || s->keep_alive);
}
