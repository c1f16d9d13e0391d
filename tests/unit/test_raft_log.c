/* The log's parts against slow and obvious versions of themselves. */
#include "base/rand.h"
#include "raft/raft_internal.h"
#include "raft_solo.h"

#define ORACLE_MAX 400

/* One term for each index, in a plain array. */
struct oracle {
	raft_term term[ORACLE_MAX];
	raft_index first, last;
};

static raft_term oracle_at(const struct oracle *o, raft_index i)
{
	return i >= o->first && i <= o->last ? o->term[i] : 0;
}

static void oracle_compare(const struct oracle *o, const struct rlog *l)
{
	assert_int_equal(l->first, o->first);
	assert_int_equal(l->last, o->last);
	for (raft_index i = o->first; i <= o->last; i++) {
		assert_int_equal(rlog_term_at(l, i), o->term[i]);
		const struct entry *e = cache_at(&l->cache, i);
		if (e) {
			assert_int_equal(e->index, i);
			assert_int_equal(e->term, o->term[i]);
		}
	}
	assert_int_equal(rlog_term_at(l, o->last + 1), 0);
}

static raft_index oracle_agree(const struct oracle *o, raft_index floor, raft_index index, raft_term term)
{
	raft_index i = index < o->last ? index : o->last;
	const raft_index lo = floor + 1 > o->first ? floor + 1 : o->first;
	if (i < lo)
		return i;
	while (i >= lo && o->term[i] > term)
		i--;
	return i;
}

/* Appends, cuts, commits, compactions and searches in random order agree with the array at every step. */
static void test_log_agrees_with_a_plain_array(void **state)
{
	(void)state;
	struct rand dice;
	rand_seed(&dice, 1);
	for (int round = 0; round < 50; round++) {
		struct rlog l;
		struct oracle o = { .first = 1 };
		raft_term term = 1;
		rlog_init(&l, &(struct raft_start){ 0 });
		for (int step = 0; step < 300; step++) {
			const uint64_t what = rand_below(&dice, 10);
			if (what < 5 && o.last + 1 < ORACLE_MAX) {
				term += rand_below(&dice, 4) == 0;
				struct entry *e = solo_entries(o.last + 1, term, 1, (size_t)rand_below(&dice, 40));
				rlog_append(&l, e);
				o.term[++o.last] = term;
				solo_drop(e, 1);
			} else if (what == 5 && o.last > l.commit) {
				const raft_index first = l.commit + 1 + rand_below(&dice, o.last - l.commit);
				rlog_truncate(&l, first);
				o.last = first - 1;
			} else if (what == 6) {
				l.unwritten = o.last + 1;
				l.durable = o.last;
				l.commit += rand_below(&dice, o.last - l.commit + 1);
				l.handed = l.applied = l.commit;
				rlog_trim(&l, 200);
				assert_true(l.cache.bytes <= 200 || l.cache.v[l.cache.head].index > l.commit);
			} else if (what == 7 && l.applied >= o.first) {
				const raft_index upto = o.first + rand_below(&dice, l.applied - o.first + 1);
				const raft_term base = oracle_at(&o, upto);
				rlog_compact(&l, upto);
				o.first = upto + 1;
				assert_int_equal(rlog_term_at(&l, upto), base);
			} else {
				const raft_index index = rand_below(&dice, o.last + 3);
				const raft_term below = rand_below(&dice, term + 2);
				assert_int_equal(rlog_agree(&l, l.commit, index, below),
				                 oracle_agree(&o, l.commit, index, below));
			}
			oracle_compare(&o, &l);
		}
		rlog_fini(&l);
	}
}

/* §5.4.1: the later last term wins, then the longer log. */
static void test_up_to_date_compares_term_then_length(void **state)
{
	(void)state;
	struct rlog l;
	rlog_init(&l, &(struct raft_start){ 0 });
	struct entry *v = solo_entries(1, 3, 5, 0);
	for (size_t i = 0; i < 5; i++)
		rlog_append(&l, &v[i]);
	solo_drop(v, 5);
	assert_true(rlog_is_up_to_date(&l, 5, 3));
	assert_true(rlog_is_up_to_date(&l, 6, 3));
	assert_true(rlog_is_up_to_date(&l, 1, 4));
	assert_false(rlog_is_up_to_date(&l, 4, 3));
	assert_false(rlog_is_up_to_date(&l, 9, 2));
	rlog_fini(&l);
}

/* A run stops at its byte limit but always holds one entry, however large. */
static void test_run_keeps_its_limits(void **state)
{
	(void)state;
	struct cache c = { 0 };
	struct entry *v = solo_entries(10, 1, 20, 100);
	for (size_t i = 0; i < 20; i++)
		cache_push(&c, &v[i]);
	size_t n = 0;
	assert_null(cache_run(&c, 9, 20, 1000, &n));
	assert_null(cache_run(&c, 30, 40, 1000, &n));
	assert_null(cache_run(&c, 12, 11, 1000, &n));
	assert_int_equal(cache_run(&c, 10, 29, 1, &n)->index, 10);
	assert_int_equal(n, 1);
	assert_int_equal(cache_run(&c, 12, 29, 3 * (100 + RAFT_ENTRY_OVERHEAD), &n)->index, 12);
	assert_int_equal(n, 3);
	assert_int_equal(cache_run(&c, 28, 29, SIZE_MAX, &n)->index, 28);
	assert_int_equal(n, 2);
	assert_int_equal(cache_run(&c, 12, 13, SIZE_MAX, &n)->index, 12);
	assert_int_equal(n, 2);
	solo_drop(v, 20);
	cache_fini(&c);
}

/* In steady state the cache neither grows nor leaks: entries pass through the same memory. */
static void test_cache_reuses_its_memory(void **state)
{
	(void)state;
	struct cache c = { 0 };
	size_t cap = 0;
	for (raft_index i = 1; i <= 10000; i++) {
		struct entry *e = solo_entries(i, 1, 1, 10);
		cache_push(&c, e);
		solo_drop(e, 1);
		cache_trim(&c, i, 100 * (10 + RAFT_ENTRY_OVERHEAD));
		if (i == 1000)
			cap = c.cap;
	}
	assert_int_equal(c.cap, cap);
	assert_int_equal(c.count, 100);
	cache_fini(&c);
}

/* Every majority the files ask for is the one a count over all voters gives. */
static void test_quorum_agrees_with_counting(void **state)
{
	(void)state;
	struct rand dice;
	rand_seed(&dice, 2);
	for (int round = 0; round < 2000; round++) {
		struct peer peers[RAFT_SERVERS_MAX] = { 0 };
		struct raft r = { .peer_count = (size_t)rand_below(&dice, 7), .self_voter = rand_below(&dice, 5) > 0 };
		r.log.durable = rand_below(&dice, 6);
		size_t voters = r.self_voter;
		size_t votes = voters;
		for (size_t i = 0; i < r.peer_count; i++) {
			r.peers[i] = &peers[i];
			peers[i].voter = rand_below(&dice, 4) > 0;
			peers[i].granted = rand_below(&dice, 2) > 0;
			peers[i].match = rand_below(&dice, 6);
			voters += peers[i].voter;
			votes += peers[i].voter && peers[i].granted;
		}
		assert_int_equal(quorum_voters(&r), voters);
		assert_int_equal(quorum_granted(&r, true), 2 * votes > voters);
		raft_index best = 0;
		for (raft_index index = 1; index < 6; index++) {
			size_t have = r.self_voter && r.log.durable >= index;
			for (size_t i = 0; i < r.peer_count; i++)
				have += peers[i].voter && peers[i].match >= index;
			if (2 * have > voters)
				best = index;
		}
		assert_int_equal(quorum_match(&r), best);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_agrees_with_a_plain_array),
		cmocka_unit_test(test_up_to_date_compares_term_then_length),
		cmocka_unit_test(test_run_keeps_its_limits),
		cmocka_unit_test(test_cache_reuses_its_memory),
		cmocka_unit_test(test_quorum_agrees_with_counting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
