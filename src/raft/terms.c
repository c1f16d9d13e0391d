/* Which term wrote which indexes, for the whole log, in memory: a handful of ranges, since terms are few.
 *
 * Ranges ascend in index and in term. It does not know where the log ends: rlog.c asks only for what is there.
 */
#include "raft/raft_internal.h"

void terms_fini(struct terms *t)
{
	mem_free(t->v);
	*t = (struct terms){ 0 };
}

void terms_append(struct terms *t, raft_index index, raft_term term)
{
	assert(term > 0);
	if (t->count > 0) {
		const struct raft_term_range *last = &t->v[t->count - 1];
		assert(index > last->first && term >= last->term);
		if (term == last->term)
			return;
	}
	if (t->count == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 16;
		t->v = mem_realloc(t->v, t->cap * sizeof(*t->v));
	}
	t->v[t->count++] = (struct raft_term_range){ .first = index, .term = term };
}

void terms_truncate(struct terms *t, raft_index first)
{
	while (t->count > 0 && t->v[t->count - 1].first >= first)
		t->count--;
}

void terms_compact(struct terms *t, raft_index first)
{
	size_t drop = 0;
	while (drop + 1 < t->count && t->v[drop + 1].first <= first)
		drop++;
	memmove(t->v, t->v + drop, (t->count - drop) * sizeof(*t->v));
	t->count -= drop;
	if (t->count > 0 && t->v[0].first < first)
		t->v[0].first = first;
}

/* Number of ranges that begin at or below index. */
static size_t count_up_to(const struct terms *t, raft_index index)
{
	size_t lo = 0, hi = t->count;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		if (t->v[mid].first <= index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

raft_term terms_at(const struct terms *t, raft_index index)
{
	const size_t n = count_up_to(t, index);
	assert(n > 0);
	return t->v[n - 1].term;
}

raft_index terms_last_not_above(const struct terms *t, raft_index lo, raft_index hi, raft_term term)
{
	assert(lo > 0 && lo <= hi + 1);
	/* Terms ascend with the index, so the answer is the end of the last range whose term is low enough. */
	size_t n = count_up_to(t, hi);
	raft_index end = hi;
	while (n > 0 && t->v[n - 1].term > term) {
		end = t->v[n - 1].first - 1;
		if (end < lo)
			return lo - 1;
		n--;
	}
	return end < lo ? lo - 1 : end;
}
