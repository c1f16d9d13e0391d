/* http/wire.h - a forwarded request and its answer as bytes.
 *
 *   | u32 length of the head, little-endian | head: one msgpack array | body bytes |
 *
 * The body travels as received. A head may grow: a reader passes over elements behind those it knows, so servers of two
 * releases understand each other.   Thread: any.
 */
#ifndef HTTP_WIRE_H
#define HTTP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "http/call.h"

/* Appends everything but the body (c->rq.body). */
void http_wire_put_request(struct buf *out, const struct http_call *c);
/* Fills verb, target, fields and rq of `c`; its strings point into the bytes. ERR_CORRUPT with the reason. */
MUST_CHECK int http_wire_get_request(const uint8_t *bytes, size_t len, struct http_call *c, struct err *e);

/* Appends everything but the body (a->body). */
void http_wire_put_answer(struct buf *out, const struct svc_answer *a);
/* Fills `a` but for its body, which `body` gets. */
MUST_CHECK int http_wire_get_answer(const uint8_t *bytes, size_t len, struct svc_answer *a, struct str *body,
                                    struct err *e);

#endif /* HTTP_WIRE_H */
