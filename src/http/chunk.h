/* http/chunk.h - takes chunked coding off a body, strictly.
 *
 * A size is 1 to 16 hex digits; an extension is passed over up to HTTP_CHUNK_EXT_MAX bytes; every line ends in CR LF;
 * nothing stands between the last chunk and the empty line that ends the body (no trailers). All else is refused, since
 * a body that two programs end at different bytes is a forged request.
 * Thread: any.   Source: RFC 9112, section 7.1.
 */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "http/scan.h" /* struct http_refusal */

#define HTTP_CHUNK_EXT_MAX 128 /* bytes of one chunk's extension */

enum http_chunk_result { HTTP_CHUNK_MORE, HTTP_CHUNK_DONE, HTTP_CHUNK_REFUSED };

/* Zero-initialised stands before the first size. */
struct http_chunk {
	int state;       /* chunk.c's own */
	unsigned digits; /* of the size being read */
	unsigned ext;    /* bytes of the extension being passed over */
	uint64_t left;   /* bytes of the current chunk still to come */
	size_t total;    /* payload bytes so far; at most HTTP_BODY_MAX */
	struct http_refusal refusal;
};

/* Reads raw bytes and writes the payload among them to `out`, which may be `raw` itself or stand before it. *used: raw
 * bytes taken (all of them unless the body ended before); *put: payload bytes written. */
enum http_chunk_result http_chunk_read(struct http_chunk *c, const uint8_t *raw, size_t len, size_t *used, uint8_t *out,
                                       size_t *put);

#endif /* HTTP_CHUNK_H */
