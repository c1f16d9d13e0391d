#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void mem_exhausted(size_t size)
{
	fprintf(stderr, "veena: out of memory (%zu bytes wanted); stopping, the log keeps what was acknowledged\n",
	        size);
	abort();
}

static void *must(void *p, size_t size)
{
	if (!p && size)
		mem_exhausted(size);
	return p;
}

void *mem_alloc(size_t size)
{
	return must(malloc(size), size);
}

void *mem_zalloc(size_t size)
{
	return must(calloc(1, size), size);
}

void *mem_try_alloc(size_t size)
{
	return malloc(size);
}

void *mem_realloc(void *p, size_t size)
{
	return must(realloc(p, size), size);
}

void *mem_dup(const void *p, size_t size)
{
	void *copy = mem_alloc(size);
	if (size)
		memcpy(copy, p, size);
	return copy;
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

char *mem_strndup(const char *s, size_t len)
{
	char *copy = mem_alloc(len + 1);
	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

void mem_free(void *p)
{
	free(p);
}

void *mem_zalloc_aligned(size_t align, size_t size)
{
	void *p = must(aligned_alloc(align, size), size);
	memset(p, 0, size);
	return p;
}
