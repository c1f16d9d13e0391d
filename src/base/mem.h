/* base/mem.h - allocation.
 *
 * mem_alloc and its kin do not return NULL: on exhaustion they say so on stderr and abort, since fail-stop is legal
 * under Raft and better tested than unwinding. mem_try_alloc is for sizes that come from outside. Thread: any.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

void *mem_alloc(size_t size);                        /* uninitialised; caller frees with mem_free */
void *mem_zalloc(size_t size);                       /* zeroed */
void *mem_zalloc_aligned(size_t align, size_t size); /* zeroed; size a multiple of align, a power of two */
void *mem_try_alloc(size_t size);                    /* NULL on exhaustion */
void *mem_realloc(void *p, size_t size);             /* as mem_alloc */
void *mem_dup(const void *p, size_t size);           /* copy of `size` bytes */
char *mem_strdup(const char *s);                     /* copy; s must not be NULL */
char *mem_strndup(const char *s, size_t len);
void mem_free(void *p);                    /* accepts NULL */
_Noreturn void mem_exhausted(size_t size); /* what mem_alloc does on exhaustion */

#endif /* BASE_MEM_H */
