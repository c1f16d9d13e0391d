#include "base/slab.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Usual sizes go through small shared stacks. A mutex is enough: the thread that frees a slab is usually not the one
 * that made it, so thread-local caches would only drain one way, and the critical section is two pointer moves. */
static const size_t class_bytes[] = { 512, 4096, 32768, 262144 };
#define CLASS_COUNT (sizeof(class_bytes) / sizeof(class_bytes[0]))
#define CLASS_NONE UINT32_MAX
#define POOLED_BYTES_MAX (2u << 20) /* kept per class */

struct slab_class {
	pthread_mutex_t lock;
	struct slab *top; /* linked through the first bytes of data */
	size_t count;
};

static struct slab_class classes[CLASS_COUNT] = {
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
	{ .lock = PTHREAD_MUTEX_INITIALIZER },
};

static struct slab *next_of(const struct slab *s)
{
	struct slab *next;
	memcpy(&next, s->data, sizeof(next)); /* NOLINT(bugprone-sizeof-expression): the pointer itself is stored */
	return next;
}

static void set_next(struct slab *s, struct slab *next)
{
	memcpy(s->data, &next, sizeof(next)); /* NOLINT(bugprone-sizeof-expression) */
}

static struct slab *pool_take(uint32_t c)
{
	struct slab_class *k = &classes[c];
	pthread_mutex_lock(&k->lock);
	struct slab *s = k->top;
	if (s) {
		k->top = next_of(s);
		k->count--;
	}
	pthread_mutex_unlock(&k->lock);
	return s;
}

static bool pool_give(struct slab *s)
{
	if (s->pool_class == CLASS_NONE)
		return false;
	struct slab_class *k = &classes[s->pool_class];
	pthread_mutex_lock(&k->lock);
	const bool room = (k->count + 1) * class_bytes[s->pool_class] <= POOLED_BYTES_MAX;
	if (room) {
		set_next(s, k->top);
		k->top = s;
		k->count++;
	}
	pthread_mutex_unlock(&k->lock);
	return room;
}

static uint32_t class_for(size_t cap)
{
	for (uint32_t c = 0; c < CLASS_COUNT; c++) {
		if (cap <= class_bytes[c])
			return c;
	}
	return CLASS_NONE;
}

struct slab *slab_try_new(size_t cap)
{
	const uint32_t c = class_for(cap);
	struct slab *s = c == CLASS_NONE ? NULL : pool_take(c);
	if (!s) {
		const size_t bytes = c == CLASS_NONE ? cap : class_bytes[c];
		s = mem_try_alloc(sizeof(*s) + bytes);
		if (!s)
			return NULL;
		s->pool_class = c;
		s->cap = bytes;
	}
	atomic_init(&s->refs, 1);
	s->len = 0;
	return s;
}

struct slab *slab_new(size_t cap)
{
	struct slab *s = slab_try_new(cap);
	if (!s)
		mem_exhausted(cap);
	return s;
}

struct slab *slab_from(const void *bytes, size_t len)
{
	struct slab *s = slab_new(len);
	if (len)
		memcpy(s->data, bytes, len);
	s->len = len;
	return s;
}

struct slab *slab_ref(struct slab *s)
{
	if (s) {
		const uint32_t before = atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
		assert(before > 0 && before < UINT32_MAX);
	}
	return s;
}

void slab_unref(struct slab *s)
{
	if (!s)
		return;
	const uint32_t before = atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before == 1 && !pool_give(s))
		mem_free(s);
}

void slab_drain_pool(void)
{
	for (uint32_t c = 0; c < CLASS_COUNT; c++) {
		struct slab *s;
		while ((s = pool_take(c)))
			mem_free(s);
	}
}
