/* wal/live.c - which entries the log holds, with overrides carried out.
 *
 * Fed with every record in the order of the files, by recovery and by append alike: one rule, one place. The term of
 * each entry is kept as ranges, so that a record can say the term of its predecessor.
 */
#include "wal/wal_internal.h"

#include "base/mem.h"

void wal_live_init(struct wal_live *l)
{
	*l = (struct wal_live){ 0 };
	wal_index_init(&l->index);
}

void wal_live_fini(struct wal_live *l)
{
	mem_free(l->terms);
	l->terms = NULL;
	l->term_count = 0;
	l->term_cap = 0;
	wal_index_fini(&l->index);
}

static void publish(struct wal_live *l)
{
	wal_index_bound(&l->index, l->last_index > l->base_index ? l->base_index + 1 : 0, l->last_index);
}

void wal_live_restart(struct wal_live *l, raft_index base_index, raft_term base_term)
{
	l->base_index = base_index;
	l->base_term = base_term;
	l->last_index = base_index;
	l->term_count = 0;
	wal_index_begin(&l->index);
	wal_index_cut(&l->index, 0);
	publish(l);
	wal_index_end(&l->index);
}

static void cut_terms(struct wal_live *l, raft_index from)
{
	while (l->term_count && l->terms[l->term_count - 1].first >= from)
		l->term_count--;
}

static void push_term(struct wal_live *l, raft_index index, raft_term term)
{
	if (l->term_count && l->terms[l->term_count - 1].term == term)
		return;
	if (l->term_count == l->term_cap) {
		l->term_cap = l->term_cap ? 2 * l->term_cap : 64;
		l->terms = mem_realloc(l->terms, l->term_cap * sizeof(l->terms[0]));
	}
	l->terms[l->term_count++] = (struct wal_term_range){ index, term };
}

void wal_live_note(struct wal_live *l, raft_index index, raft_term term, struct wal_pos at)
{
	assert(index > l->base_index);
	assert(index <= l->last_index + 1);
	const bool overrides = index <= l->last_index;
	if (overrides) {
		wal_index_cut(&l->index, index);
		cut_terms(l, index);
	}
	wal_index_note(&l->index, index, at, overrides);
	push_term(l, index, term);
	l->last_index = index;
	publish(l);
}

raft_term wal_live_term(const struct wal_live *l, raft_index index)
{
	assert(index >= l->base_index && index <= l->last_index);
	if (index == l->base_index)
		return l->base_term;
	size_t low = 0; /* ranges before it begin at or below index */
	size_t high = l->term_count;
	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		if (l->terms[mid].first <= index)
			low = mid + 1;
		else
			high = mid;
	}
	assert(low > 0);
	return l->terms[low - 1].term;
}

void wal_live_drop(struct wal_live *l, uint64_t before_segment)
{
	const raft_index first = wal_index_first_above(&l->index, before_segment - 1);
	const raft_index base = first ? first - 1 : l->last_index;
	assert(base >= l->base_index);
	l->base_term = wal_live_term(l, base);
	l->base_index = base;

	size_t gone = 0; /* ranges that end at or below base */
	while (gone < l->term_count) {
		const raft_index end = gone + 1 < l->term_count ? l->terms[gone + 1].first - 1 : l->last_index;
		if (end > base)
			break;
		gone++;
	}
	for (size_t i = gone; i < l->term_count; i++)
		l->terms[i - gone] = l->terms[i];
	l->term_count -= gone;
	if (l->term_count && l->terms[0].first <= base)
		l->terms[0].first = base + 1;

	wal_index_begin(&l->index);
	wal_index_drop(&l->index, before_segment);
	publish(l);
	wal_index_end(&l->index);
}
