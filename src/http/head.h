/* http/head.h - what a scanned head says: method, target, and the few header fields that the service wants.
 *
 * The bytes pass through http-parser, which sees heads only; framing comes from the scan (scan.h). Fields are offsets
 * into the head, since the buffer that holds it may move while the body arrives.
 * Thread: any.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "http/routes.h"
#include "http/scan.h"

struct http_span {
	uint32_t off, len;
	bool set;
};

/* Header fields kept from a request. Each may stand once; twice is refused. */
enum http_field {
	HTTP_FIELD_CONTENT_TYPE,
	HTTP_FIELD_CLIENT, /* X-Veena-Client or X-Narad-Client: only that it is there counts */
	HTTP_FIELD_IF_MATCH,
	HTTP_FIELD_IF_NONE_MATCH,
	HTTP_FIELD_IDEMPOTENCY_KEY,
	HTTP_FIELD_AUTHORIZATION,
	HTTP_FIELD_ACCEPT, /* the last one, if there are several */
	HTTP_FIELD_LAST_EVENT_ID,
	HTTP_FIELD_SESSION, /* X-Veena-Session: a broker's */
	HTTP_FIELD_END,
};

struct http_head {
	enum http_verb verb; /* GET for HEAD too */
	bool is_head;
	struct http_span target; /* origin form: path and query; an absolute form's scheme and host are cut off */
	struct http_span fields[HTTP_FIELD_END];
};

/* `bytes` is the head that `s` found whole. False: *out is refused for the reason in `why`. */
bool http_head_parse(const struct http_scan *s, const uint8_t *bytes, struct http_head *out, struct http_refusal *why);

static inline struct str http_span_str(const uint8_t *bytes, struct http_span s)
{
	return (struct str){ s.set ? (const char *)bytes + s.off : NULL, s.len };
}

#endif /* HTTP_HEAD_H */
