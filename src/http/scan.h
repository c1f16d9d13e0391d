/* http/scan.h - looks at each byte of a request's head once, before a parser sees it.
 *
 * The HTTP parser of the distribution is its lenient build: it takes a bare LF for a line's end, folded lines, blanks
 * before a colon, a second Host, a length beside chunked coding. Whatever two programs could frame or read in two ways
 * is refused here, and the connection closed. What decides framing is taken from here as well, never from elsewhere.
 *
 * The scan takes what has arrived and goes on where it stopped, so a head that comes byte by byte costs no more than
 * one that comes whole.   Thread: any.   Source: RFC 9112, sections 2.2, 3, 5, 6; RFC 9110, section 5.6.2.
 */
#ifndef HTTP_SCAN_H
#define HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX (64u << 10)  /* bytes from the request line to the empty line */
#define HTTP_TARGET_MAX (8u << 10) /* bytes of a request target */
#define HTTP_FIELDS_MAX 100        /* header lines */
#define HTTP_BODY_MAX (1u << 20)   /* bytes of a request's body */

/* A refusal: what the answer says. Zeroed: none. */
struct http_refusal {
	int status;
	const char *code; /* static */
	const char *text; /* static */
};

enum http_scan_result { HTTP_SCAN_MORE, HTTP_SCAN_DONE, HTTP_SCAN_REFUSED };

/* Zero-initialised is ready for a head whose first byte is bytes[0]. */
struct http_scan {
	size_t line;     /* offset of the line not yet complete */
	size_t seen;     /* bytes already searched for a line's end */
	unsigned fields; /* header lines so far */
	bool has_request_line;

	/* what the head said; complete after HTTP_SCAN_DONE */
	size_t start;   /* offset of the request line: one empty line before it is passed over */
	size_t end;     /* offset behind the empty line that ends the head */
	unsigned minor; /* HTTP/1.x */
	bool chunked;
	bool has_length;
	uint64_t length;        /* Content-Length */
	bool close, keep_alive; /* Connection said so */
	bool expects_continue;
	unsigned hosts;
	struct http_refusal refusal; /* set by HTTP_SCAN_REFUSED */
};

/* `bytes` is the same head from its first byte on, grown since the last call. */
enum http_scan_result http_scan_head(struct http_scan *s, const uint8_t *bytes, size_t len);

/* May the connection carry another request after this one? */
bool http_scan_keeps_alive(const struct http_scan *s);

#endif /* HTTP_SCAN_H */
