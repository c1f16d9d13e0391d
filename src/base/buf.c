#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buf_fini(struct buf *b)
{
	mem_free(b->data);
	*b = (struct buf){ 0 };
}

void buf_clear(struct buf *b)
{
	b->len = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	assert(n <= SIZE_MAX / 2 - b->len);
	if (b->cap - b->len < n) {
		size_t cap = b->cap ? b->cap : 64;
		while (cap - b->len < n)
			cap *= 2;
		b->data = mem_realloc(b->data, cap);
		b->cap = cap;
	}
	return b->data ? b->data + b->len : NULL;
}

void buf_advance(struct buf *b, size_t n)
{
	assert(n <= b->cap - b->len);
	b->len += n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_reserve(b, n), p, n);
	b->len += n;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	*buf_reserve(b, 1) = (uint8_t)c;
	b->len++;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	va_list again;
	va_copy(again, ap);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	assert(n >= 0);
	/* vsnprintf writes a NUL too: room for it, not counted. */
	vsnprintf((char *)buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
	va_end(again);
	b->len += (size_t)n;
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t n = 0;
	do {
		digits[sizeof(digits) - ++n] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_put(b, digits + sizeof(digits) - n, n);
}

void buf_put_i64(struct buf *b, int64_t v)
{
	if (v < 0)
		buf_putc(b, '-');
	/* Negating in unsigned arithmetic: INT64_MIN has no positive twin. */
	buf_put_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

const char *buf_cstr(struct buf *b)
{
	*buf_reserve(b, 1) = '\0';
	return (const char *)b->data;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
}
