/* base/buf.h - a growable byte buffer. Zero-initialised is empty and valid; buf_fini may run twice.
 *
 * Ownership: the buffer owns its bytes; pointers into it are borrowed until the next call that may grow it.
 * Thread: its owner's.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
	uint8_t *data; /* NULL while cap is 0 */
	size_t len;    /* bytes in use */
	size_t cap;    /* bytes allocated */
};

void buf_fini(struct buf *b);
void buf_clear(struct buf *b);                 /* len = 0, memory kept */
uint8_t *buf_reserve(struct buf *b, size_t n); /* room for n more bytes behind len; returns where they go */
void buf_advance(struct buf *b, size_t n);     /* n reserved bytes were written */
void buf_put(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_put_u64(struct buf *b, uint64_t v); /* decimal text, without printf's cost */
void buf_put_i64(struct buf *b, int64_t v);  /* decimal text */
const char *buf_cstr(struct buf *b);         /* NUL behind the last byte (not counted in len); borrowed */
void buf_consume(struct buf *b, size_t n);   /* drops n bytes from the front */

#endif /* BASE_BUF_H */
