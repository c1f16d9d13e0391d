/* Three nodes and a few verbs, for the test programs that need a cluster. */
#ifndef TESTS_UNIT_NODE_TRIO_H
#define TESTS_UNIT_NODE_TRIO_H

#include "tests/unit/node_world.h"

static inline int trio_setup(void **state)
{
	return world_setup(state, 3);
}

static inline bool all_registered(struct world *w)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node && !world_status(w, i).registered)
			return false;
	}
	return true;
}

static inline bool all_applied(struct world *w, raft_index index)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node && !w->nodes[i].frozen && world_applied(w, i) < index)
			return false;
	}
	return true;
}

static inline size_t start_three(struct world *w)
{
	for (size_t i = 0; i < 3; i++)
		world_start(w, i);
	world_until(w, world_leader(w) < WORLD_NODES && all_registered(w));
	return world_leader(w);
}

static inline void cut(struct world *w, size_t a, size_t b, bool on)
{
	w->nodes[a].cut[b] = on;
	w->nodes[b].cut[a] = on;
}

static inline void isolate(struct world *w, size_t i, bool on)
{
	for (size_t k = 0; k < w->count; k++) {
		if (k != i)
			cut(w, i, k, on);
	}
}

static inline size_t other_than(const struct world *w, size_t a, size_t b)
{
	for (size_t i = 0; i < w->count; i++) {
		if (i != a && i != b && w->nodes[i].node)
			return i;
	}
	fail_msg("no other node runs");
	return 0;
}

/* A leader among the others than `not`. */
static inline size_t await_leader_but(struct world *w, size_t not )
{
	world_until(w, world_leader(w) < WORLD_NODES && world_leader(w) != not );
	return world_leader(w);
}

static inline void expect_equal_states(struct world *w)
{
	raft_index most = 0;
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node && world_applied(w, i) > most)
			most = world_applied(w, i);
	}
	world_until(w, all_applied(w, most));
	struct fsm_digest first = { 0 };
	for (size_t i = 0; i < w->count; i++) {
		if (!w->nodes[i].node)
			continue;
		const struct fsm_digest d = world_digest(w, i);
		if (first.index == 0)
			first = d;
		assert_int_equal(d.index, first.index);
		assert_true(d.total == first.total);
	}
}

#endif /* TESTS_UNIT_NODE_TRIO_H */
