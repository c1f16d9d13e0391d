/* The newest entries, one behind the other in memory, so that a run of them can be lent without copying.
 *
 * A plain array with a moving head: entries leave at the front, come in at the end, and move down when the end is
 * reached and at least half of the array is free. So a push costs amortised constant time and, once the array has
 * grown to its working size, no allocation.
 */
#include "raft/raft_internal.h"

static void drop_front(struct cache *c)
{
	c->bytes -= entry_cost(&c->v[c->head]);
	entry_unref(&c->v[c->head]);
	c->head++;
	c->count--;
}

static void drop_back(struct cache *c)
{
	struct entry *e = &c->v[c->head + c->count - 1];
	c->bytes -= entry_cost(e);
	entry_unref(e);
	c->count--;
}

void cache_clear(struct cache *c)
{
	while (c->count > 0)
		drop_back(c);
	c->head = 0;
}

void cache_fini(struct cache *c)
{
	cache_clear(c);
	mem_free(c->v);
	*c = (struct cache){ 0 };
}

static void make_room(struct cache *c)
{
	if (c->head + c->count < c->cap)
		return;
	if (c->head < c->cap - c->cap / 2 || c->cap == 0) {
		c->cap = c->cap ? c->cap * 2 : 64;
		c->v = mem_realloc(c->v, c->cap * sizeof(*c->v));
	}
	if (c->head > 0) {
		memmove(c->v, c->v + c->head, c->count * sizeof(*c->v));
		c->head = 0;
	}
}

void cache_push(struct cache *c, const struct entry *e)
{
	assert(c->count == 0 || e->index == c->v[c->head + c->count - 1].index + 1);
	make_room(c);
	entry_ref(e);
	c->v[c->head + c->count++] = *e;
	c->bytes += entry_cost(e);
}

void cache_truncate(struct cache *c, raft_index first)
{
	while (c->count > 0 && c->v[c->head + c->count - 1].index >= first)
		drop_back(c);
}

void cache_trim(struct cache *c, raft_index upto, size_t bytes_max)
{
	while (c->count > 0 && c->bytes > bytes_max && c->v[c->head].index <= upto)
		drop_front(c);
}

size_t cache_fit(const struct entry *v, size_t n, size_t bytes_max, size_t *bytes)
{
	assert(n > 0);
	size_t fit = 1, sum = entry_cost(&v[0]);
	while (fit < n && sum + entry_cost(&v[fit]) <= bytes_max)
		sum += entry_cost(&v[fit++]);
	if (bytes)
		*bytes = sum;
	return fit;
}

const struct entry *cache_at(const struct cache *c, raft_index index)
{
	if (c->count == 0 || index < c->v[c->head].index || index - c->v[c->head].index >= c->count)
		return NULL;
	return &c->v[c->head + (size_t)(index - c->v[c->head].index)];
}

const struct entry *cache_run(const struct cache *c, raft_index lo, raft_index hi, size_t bytes_max, size_t *n)
{
	const struct entry *e = cache_at(c, lo);
	if (!e || hi < lo)
		return NULL;
	const size_t held = c->count - (size_t)(lo - c->v[c->head].index);
	*n = cache_fit(e, hi - lo < held ? (size_t)(hi - lo) + 1 : held, bytes_max, NULL);
	return e;
}
