/* Random clusters: loss, duplicates, reordering, one-way cuts, crashes that tear writes, stopped processes, hung disks,
 * wiped learners, changes of the configuration, snapshots. Every seed keeps every promise, and converges when healed.
 *
 * RAFT_SEED=n runs that one alone; RAFT_SEEDS=n tries so many.
 */
#include "raft_chaos.h"

#define FIRST_SEED 1
#define SEEDS 60
#define ACTIONS 2000

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	return s ? strtoull(s, NULL, 10) : otherwise;
}

static void test_random_clusters_keep_their_promises(void **state)
{
	(void)state;
	const uint64_t first = number("RAFT_SEED", FIRST_SEED);
	const uint64_t count = getenv("RAFT_SEED") ? 1 : number("RAFT_SEEDS", SEEDS);
	raft_index committed = 0;
	for (uint64_t seed = first; seed < first + count; seed++) {
		struct rc *c = chaos_new(seed);
		chaos_run(c, ACTIONS);
		chaos_converge(c);
		committed += c->committed_max;
		if (c->violation[0])
			fail_msg("seed %" PRIu64 " at %" PRIu64 " ms: %s", seed, c->now_ms, c->violation);
		rc_free(c);
	}
	/* A search that commits nothing searches nothing. */
	assert_true(committed > count * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_clusters_keep_their_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
