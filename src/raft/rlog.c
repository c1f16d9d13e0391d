/* The log as this node knows it: a term for each index, the newest entries in memory, and how far things are.
 *
 *   first-1     applied   handed   commit             last
 *     |------------|---------|--------|----------------|        commit may lie on either side of durable,
 *                            |---- durable ----|                handed never passes durable
 *                                              |- unwritten..   not yet given to the disk
 *
 * It does not decide: who may append, truncate or commit is the business of lead.c and follow.c.
 */
#include "raft/raft_internal.h"

static void load(struct rlog *l, const struct raft_start *s)
{
	assert(s->term_count > 0 && s->terms[0].first <= s->first_index && s->last_index >= s->first_index);
	for (size_t i = 0; i < s->term_count; i++)
		terms_append(&l->terms, s->terms[i].first, s->terms[i].term);
	terms_compact(&l->terms, s->first_index);
	assert(s->tail_count == 0 || s->tail[s->tail_count - 1].index == s->last_index);
	for (size_t i = 0; i < s->tail_count; i++)
		cache_push(&l->cache, &s->tail[i]);
	l->first = s->first_index;
	l->last = s->last_index;
	l->base_term = s->base_term;
	if (l->first - 1 == s->snapshot_index)
		l->base_term = s->snapshot_term;
}

void rlog_init(struct rlog *l, const struct raft_start *s)
{
	*l = (struct rlog){ .first = s->snapshot_index + 1,
		            .last = s->snapshot_index,
		            .base_term = s->snapshot_term,
		            .snap_index = s->snapshot_index,
		            .snap_term = s->snapshot_term };
	if (s->first_index > 0)
		load(l, s);
	assert(l->first <= l->snap_index + 1);
	l->commit = s->applied_index > s->snapshot_index ? s->applied_index : s->snapshot_index;
	l->handed = l->commit;
	l->applied = l->commit;
	l->durable = l->last;
	l->unwritten = l->last + 1;
}

void rlog_fini(struct rlog *l)
{
	terms_fini(&l->terms);
	cache_fini(&l->cache);
}

raft_term rlog_term_at(const struct rlog *l, raft_index index)
{
	if (index > l->last)
		return 0;
	if (index >= l->first)
		return terms_at(&l->terms, index);
	if (index == l->first - 1 && l->base_term > 0)
		return l->base_term;
	return index == l->snap_index ? l->snap_term : 0;
}

bool rlog_knows_term(const struct rlog *l, raft_index index)
{
	return index == 0 || rlog_term_at(l, index) > 0;
}

bool rlog_reaches(const struct rlog *l, raft_index next)
{
	return next >= l->first && rlog_knows_term(l, next - 1);
}

raft_term rlog_last_term(const struct rlog *l)
{
	return rlog_term_at(l, l->last);
}

bool rlog_is_up_to_date(const struct rlog *l, raft_index index, raft_term term)
{
	const raft_term own = rlog_last_term(l);
	return term > own || (term == own && index >= l->last);
}

raft_index rlog_agree(const struct rlog *l, raft_index floor, raft_index index, raft_term term)
{
	const raft_index hi = index < l->last ? index : l->last;
	const raft_index lo = floor + 1 > l->first ? floor + 1 : l->first;
	if (hi < lo)
		return hi;
	return terms_last_not_above(&l->terms, lo, hi, term);
}

void rlog_append(struct rlog *l, const struct entry *e)
{
	assert(e->index == l->last + 1);
	terms_append(&l->terms, e->index, e->term);
	cache_push(&l->cache, e);
	l->last = e->index;
}

void rlog_truncate(struct rlog *l, raft_index first)
{
	assert(first > l->commit && first >= l->first && first <= l->last);
	terms_truncate(&l->terms, first);
	cache_truncate(&l->cache, first);
	l->last = first - 1;
	/* What was written above stays on the disk until the override is durable too: disk.c caps what tickets of
	 * before may claim. */
	if (l->durable >= first)
		l->durable = first - 1;
	if (l->unwritten > first)
		l->unwritten = first;
}

void rlog_reset(struct rlog *l, raft_index index, raft_term term)
{
	l->terms.count = 0;
	cache_clear(&l->cache);
	l->first = index + 1;
	l->last = index;
	l->base_term = term;
	l->durable = index;
	l->unwritten = index + 1;
}

void rlog_compact(struct rlog *l, raft_index upto)
{
	assert(upto <= l->applied);
	if (upto < l->first)
		return;
	l->base_term = rlog_term_at(l, upto);
	l->first = upto + 1;
	if (l->first > l->last)
		l->terms.count = 0;
	terms_compact(&l->terms, l->first);
	cache_trim(&l->cache, upto, 0);
}

void rlog_trim(struct rlog *l, size_t bytes_max)
{
	/* Not durable: the disk still has to be given it. Not committed: the leader counts its bytes when it commits.
	 */
	cache_trim(&l->cache, l->durable < l->commit ? l->durable : l->commit, bytes_max);
}
