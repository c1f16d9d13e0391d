#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_MIN 4096u        /* bytes of the first block */
#define BLOCK_MAX (256u << 10) /* blocks double up to this; larger requests get a block of their own */
#define KEEP_MAX (64u << 10)   /* bytes of blocks kept over a reset */
#define ALIGN 16u

struct arena_block {
	struct arena_block *next;
	size_t cap;
	size_t len;
	_Alignas(ALIGN) uint8_t data[];
};

static struct arena_block *block_new(size_t cap)
{
	struct arena_block *b = mem_alloc(sizeof(*b) + cap);
	b->next = NULL;
	b->cap = cap;
	b->len = 0;
	return b;
}

static void free_blocks(struct arena_block *b)
{
	while (b) {
		struct arena_block *next = b->next;
		mem_free(b);
		b = next;
	}
}

void arena_fini(struct arena *a)
{
	free_blocks(a->first);
	*a = (struct arena){ 0 };
}

void arena_reset(struct arena *a)
{
	size_t kept = 0;
	for (struct arena_block *b = a->first; b; b = b->next) {
		b->len = 0;
		kept += b->cap;
		if (b->next && kept + b->next->cap > KEEP_MAX) {
			free_blocks(b->next);
			b->next = NULL;
		}
	}
	a->current = a->first;
	a->used = 0;
}

/* Moves on to a block with room for n: the next kept one, or a new one put in between. */
static struct arena_block *next_block(struct arena *a, size_t n)
{
	struct arena_block *after = a->current;
	struct arena_block *b = after ? after->next : a->first;
	if (!b || b->cap < n) {
		size_t cap = after ? after->cap * 2 : BLOCK_MIN;
		if (cap > BLOCK_MAX)
			cap = BLOCK_MAX;
		struct arena_block *fresh = block_new(cap < n ? n : cap);
		fresh->next = b;
		if (after)
			after->next = fresh;
		else
			a->first = fresh;
		b = fresh;
	}
	a->current = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
	assert(n < SIZE_MAX / 4);
	n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	struct arena_block *b = a->current;
	if (!b || b->cap - b->len < n)
		b = next_block(a, n);
	void *p = b->data + b->len;
	b->len += n;
	a->used += n;
	return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
	void *p = arena_alloc(a, n);
	memset(p, 0, n);
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *copy = arena_alloc(a, len + 1);
	if (len)
		memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

void *arena_dup(struct arena *a, const void *p, size_t len)
{
	void *copy = arena_alloc(a, len);
	if (len)
		memcpy(copy, p, len);
	return copy;
}

struct str arena_str(struct arena *a, struct str s)
{
	return (struct str){ arena_strndup(a, s.p, s.len), s.len };
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	va_list again;
	va_copy(again, ap);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	assert(n >= 0);
	char *out = arena_alloc(a, (size_t)n + 1);
	vsnprintf(out, (size_t)n + 1, fmt, again);
	va_end(again);
	return out;
}
