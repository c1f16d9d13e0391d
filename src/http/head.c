#include "http/head.h"

#include <http_parser.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	enum http_field field;
} kept_fields[] = {
	{ "content-type", HTTP_FIELD_CONTENT_TYPE },   { "x-veena-client", HTTP_FIELD_CLIENT },
	{ "x-narad-client", HTTP_FIELD_CLIENT },       { "if-match", HTTP_FIELD_IF_MATCH },
	{ "if-none-match", HTTP_FIELD_IF_NONE_MATCH }, { "idempotency-key", HTTP_FIELD_IDEMPOTENCY_KEY },
	{ "authorization", HTTP_FIELD_AUTHORIZATION }, { "accept", HTTP_FIELD_ACCEPT },
	{ "last-event-id", HTTP_FIELD_LAST_EVENT_ID }, { "x-veena-session", HTTP_FIELD_SESSION },
};

struct head_parse {
	const uint8_t *bytes;
	struct http_head *head;
	struct http_span name; /* header name whose value comes next */
	const char *refused;   /* why a callback stopped the parser; static */
};

static struct http_span span_of(const struct head_parse *p, const char *at, size_t len)
{
	return (struct http_span){ (uint32_t)((const uint8_t *)at - p->bytes), (uint32_t)len, true };
}

/* The whole head is given at once, so each of these is called once per item. */
static int on_url(http_parser *hp, const char *at, size_t len)
{
	struct head_parse *p = hp->data;

	p->head->target = span_of(p, at, len);
	return 0;
}

static int on_header_field(http_parser *hp, const char *at, size_t len)
{
	struct head_parse *p = hp->data;

	p->name = span_of(p, at, len);
	return 0;
}

static int on_header_value(http_parser *hp, const char *at, size_t len)
{
	struct head_parse *p = hp->data;
	const char *name = (const char *)p->bytes + p->name.off;

	while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	for (size_t i = 0; i < sizeof(kept_fields) / sizeof(kept_fields[0]); i++) {
		struct http_span *kept = &p->head->fields[kept_fields[i].field];

		if (strlen(kept_fields[i].name) != p->name.len ||
		    strncasecmp(kept_fields[i].name, name, p->name.len) != 0)
			continue;
		if (kept->set && kept_fields[i].field != HTTP_FIELD_CLIENT &&
		    kept_fields[i].field != HTTP_FIELD_ACCEPT) {
			p->refused = "a header field that may stand once is given twice";
			return 1;
		}
		*kept = span_of(p, at, len);
	}
	return 0;
}

/* 2: neither a body nor another message for the parser. */
static int on_headers_complete(http_parser *hp)
{
	(void)hp;
	return 2;
}

/* What the parser does not know either is refused by it: how such a request would end nobody can say. */
static bool verb_of(unsigned method, struct http_head *h)
{
	h->is_head = method == HTTP_HEAD;
	switch (method) {
	case HTTP_GET:
	case HTTP_HEAD: h->verb = HTTP_VERB_GET; return true;
	case HTTP_POST: h->verb = HTTP_VERB_POST; return true;
	case HTTP_PUT: h->verb = HTTP_VERB_PUT; return true;
	case HTTP_PATCH: h->verb = HTTP_VERB_PATCH; return true;
	case HTTP_DELETE: h->verb = HTTP_VERB_DELETE; return true;
	case HTTP_CONNECT: return false;
	default: h->verb = HTTP_VERB_OTHER; return true;
	}
}

/* RFC 9112, 3.2.2: the absolute form is taken; its host counts for nothing here. */
static bool cut_to_origin_form(const uint8_t *bytes, struct http_span *target)
{
	static const char *const schemes[] = { "http://", "https://" };
	struct str t = http_span_str(bytes, *target);

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t n = strlen(schemes[i]);

		if (t.len > n && strncasecmp(t.p, schemes[i], n) == 0) {
			const char *slash = memchr(t.p + n, '/', t.len - n);

			if (!slash)
				return false;
			target->off += (uint32_t)(slash - t.p);
			target->len -= (uint32_t)(slash - t.p);
			return true;
		}
	}
	return t.len > 0 && t.p[0] == '/';
}

bool http_head_parse(const struct http_scan *s, const uint8_t *bytes, struct http_head *out, struct http_refusal *why)
{
	static const http_parser_settings settings = {
		.on_url = on_url,
		.on_header_field = on_header_field,
		.on_header_value = on_header_value,
		.on_headers_complete = on_headers_complete,
	};
	struct head_parse p = { .bytes = bytes, .head = out };
	http_parser hp;
	size_t len = s->end - s->start;

	memset(out, 0, sizeof(*out));
	http_parser_init(&hp, HTTP_REQUEST);
	hp.data = &p;
	size_t used = http_parser_execute(&hp, &settings, (const char *)bytes + s->start, len);

	*why = (struct http_refusal){ 400, "bad_request", "the request's head is not HTTP" };
	if (p.refused)
		why->text = p.refused;
	if (HTTP_PARSER_ERRNO(&hp) == HPE_INVALID_METHOD)
		*why = (struct http_refusal){ 501, "not_supported", "this method is not known here" };
	/* With 2 from on_headers_complete the parser stops behind the last byte of the head, or it did not see what the
	 * scan saw: then nobody shall act on it. */
	if (HTTP_PARSER_ERRNO(&hp) != HPE_OK || used != len || !out->target.set)
		return false;
	if (!verb_of(hp.method, out)) {
		*why = (struct http_refusal){ 501, "not_supported", "this method is not served here" };
		return false;
	}
	if (!cut_to_origin_form(bytes, &out->target)) {
		why->text = "the request target does not begin with a slash";
		return false;
	}
	return true;
}
