/* Three nodes under one clock and one network: how a cluster begins, writes, and loses its leader. */
#include "tests/unit/node_trio.h"

#include "base/rand.h"
#include "node/wire.h"

/* ---- the beginning of a cluster ---- */

/* With one of --initial-members missing nobody begins, and the log says who is missing; when it comes, one cluster
 * does. */
static void test_bootstrap_waits_for_all(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	world_start(w, 1);
	world_run(w, 12000);
	assert_false(world_status(w, 0).configured || world_status(w, 1).configured);
	assert_true(world_logged("n3: no answer"));
	world_start(w, 2);
	world_until(w, world_status(w, 0).configured);
	/* Nobody has a member row yet: what the others know is what they said in their hellos. */
	assert_int_equal(world_status(w, 0).cluster_min_type, fsm_max_known_type());
	world_until(w, world_leader(w) < WORLD_NODES && all_registered(w));
	for (size_t i = 1; i < 3; i++) {
		assert_true(world_status(w, i).cluster_id == world_status(w, 0).cluster_id);
		assert_int_equal(world_status(w, i).conf.count, 3);
	}
	expect_equal_states(w);
}

/* An answer counts for its own round only: what somebody said of itself earlier proves nothing now. */
static void test_bootstrap_ignores_late_answers(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	world_start(w, 1);
	world_run(w, 1200);
	struct net_hello third = { .incarnation = 333, .name = "n3", .addr = "127.0.0.1:7003", .empty = true };
	struct wire_probe_reply late = { .round = 1, .empty = true, .addr = STR_LIT("127.0.0.1:7003") };
	struct wire_out o = { 0 };
	size_t count;
	wire_put_record(&o, &wire_probe_reply_type, &late);
	for (int i = 0; i < 400; i++) {
		world_post(w, 0, &third, WIRE_PROBE_REPLY, slab_from(wire_pieces(&o, &count)->p, o.head.len));
		world_step(w);
	}
	wire_out_fini(&o);
	assert_false(world_status(w, 0).configured);
}

/* Once a cluster that another node began has told it of itself, a node begins none, also after a restart. */
static void test_told_of_a_cluster_it_begins_none(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	world_run(w, 100);
	struct net_hello stranger = { .cluster_id = 77, .incarnation = 333, .name = "z", .addr = "127.0.0.1:7999" };
	const struct raft_msg m = { .type = RAFT_MSG_PREVOTE,
		                    .from = 333,
		                    .to = w->nodes[0].net.self.incarnation,
		                    .term = 9,
		                    .index = 5,
		                    .log_term = 8 };
	struct wire_out o = { 0 };
	size_t count;
	wire_put_msg(&o, 77, &m);
	world_post(w, 0, &stranger, WIRE_RAFT, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	wire_out_fini(&o);
	world_run(w, 100);
	assert_int_equal(world_status(w, 0).cluster_id, 77);
	world_start(w, 1);
	world_start(w, 2);
	world_run(w, 3000);
	assert_false(world_status(w, 0).configured);
	world_stop(w, 0);
	world_start(w, 0);
	world_run(w, 3000);
	assert_int_equal(world_status(w, 0).cluster_id, 77);
	assert_false(world_status(w, 0).configured || world_status(w, 1).configured);
}

/* A round in which one holds a configuration never begins a second cluster: the wiped one only asks, and until it is
 * admitted it is nobody (F12, F14). */
static void test_wiped_node_begins_nothing(void **state)
{
	struct world *w = *state;
	size_t leader = start_three(w);
	world_create(w, leader, "a");
	world_stop(w, 0);
	world_remove_tree(w->nodes[0].dir);
	leader = await_leader_but(w, 0);
	const uint64_t cluster = world_status(w, 1).cluster_id;
	const raft_term term = world_status(w, leader).term;
	world_start(w, 0);
	world_run(w, 2800);
	assert_false(world_status(w, 0).configured);
	assert_false(world_has_topic(w, 0, "a"));
	assert_true(world_logged("n2: holds a configuration"));
	assert_true(world_status(w, leader).term == term && world_leader(w) == leader);
	assert_true(world_status(w, leader).cluster_id == cluster);
	/* Its name alone makes nobody of it: with the third one gone there is no majority. */
	const size_t third = other_than(w, leader, 0);
	world_stop(w, third);
	world_run(w, 5000);
	assert_int_equal(world_leader(w), WORLD_NODES);
}

/* A node that --initial-members does not name never begins a cluster and serves nothing (F14): it comes in when the
 * cluster of the others is there to take it in. */
static void test_unnamed_node_never_begins(void **state)
{
	struct world *w = *state;
	static const char *const initial[] = { "n1", "n2" };
	for (size_t i = 0; i < 3; i++) {
		w->nodes[i].options.initial_members = initial;
		w->nodes[i].options.initial_member_count = 2;
	}
	world_start(w, 2);
	world_run(w, 5000);
	assert_false(world_status(w, 2).configured);
	world_start(w, 0);
	world_start(w, 1);
	world_until(w, world_leader(w) < WORLD_NODES);
	const uint64_t cluster = world_status(w, 0).cluster_id;
	world_until(w, world_status(w, 2).configured);
	world_until(w, node_is_caught_up(w->nodes[2].node, NULL, 0));
	assert_true(world_status(w, 2).cluster_id == cluster);
	assert_int_equal(world_status(w, 0).conf.count, 3);
}

/* Killed at any step of the bootstrap, the cluster still begins, once, when all are back. */
static void test_bootstrap_survives_crashes(void **state)
{
	struct world *w = *state;
	for (size_t i = 0; i < 3; i++)
		world_start(w, i);
	struct rand r;
	rand_seed(&r, 99);
	for (int round = 0; round < 40; round++) {
		world_run(w, 5 * rand_below(&r, 30));
		const size_t victim = rand_below(&r, 3);
		world_stop(w, victim);
		world_start(w, victim);
	}
	world_until(w, world_leader(w) < WORLD_NODES && all_registered(w));
	for (size_t i = 1; i < 3; i++)
		assert_true(world_status(w, i).cluster_id == world_status(w, 0).cluster_id);
	world_create(w, world_leader(w), "a");
	expect_equal_states(w);
}

/* ---- writes ---- */

/* What one node acknowledged all have, and all have the same bytes. */
static void test_writes_reach_everybody(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	raft_index last = 0;
	for (int i = 0; i < 100; i++) {
		char name[32];
		snprintf(name, sizeof(name), "t%d", i);
		last = world_create(w, leader, name);
	}
	world_until(w, all_applied(w, last));
	expect_equal_states(w);
	for (size_t i = 0; i < 3; i++) {
		char why[200];
		if (!node_is_caught_up(w->nodes[i].node, why, sizeof(why)))
			fail_msg("n%zu: %s", i + 1, why);
		struct fsm_member m = { 0 };
		for (size_t k = 0; k < 3; k++) {
			assert_true(world_member(w, i, w->nodes[k].name, &m));
			assert_true(m.alive);
		}
		assert_int_equal(world_status(w, i).cluster_min_type, fsm_max_known_type());
	}
}

/* A follower's proposal is refused: the floor above forwards whole requests. */
static void test_follower_refuses_proposals(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	world_propose(w, follower, "a", 4);
	const struct node_completion c = world_wait(w, follower);
	assert_true(c.slot == 4 && c.code == ERR_NOT_LEADER);
}

/* A follower's read index covers everything acknowledged before it asked. */
static void test_follower_reads_the_leaders_index(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	const raft_index a = world_create(w, leader, "a");
	const struct node_reply_to r = { .queue = w->nodes[follower].done, .slot = 1, .generation = 7 };
	for (int i = 0; i < 50; i++)
		assert_true(node_ask_read(w->nodes[follower].node, r));
	for (int i = 0; i < 50; i++) {
		const struct node_completion c = world_wait(w, follower);
		assert_int_equal(c.code, 0);
		assert_true(c.index >= a);
	}
}

/* Without a majority there is no read index, and whoever asked is told so. */
static void test_read_without_quorum_fails(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	isolate(w, leader, true);
	const struct node_reply_to r = { .queue = w->nodes[leader].done, .slot = 1, .generation = 7 };
	assert_true(node_ask_read(w->nodes[leader].node, r));
	const struct node_completion c = world_wait(w, leader);
	assert_true(c.code == ERR_NOT_LEADER || c.code == ERR_TIMEOUT);
}

/* ---- losing leaders ---- */

/* The leader dies: another one serves, with everything that was acknowledged, and registers all anew. */
static void test_leader_loss_loses_nothing(void **state)
{
	struct world *w = *state;
	size_t leader = start_three(w);
	char name[32];
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 10; i++) {
			snprintf(name, sizeof(name), "t%d-%d", round, i);
			world_create(w, leader, name);
		}
		const size_t dead = leader;
		world_stop(w, dead);
		leader = await_leader_but(w, dead);
		snprintf(name, sizeof(name), "after%d", round);
		world_create(w, leader, name);
		world_start(w, dead);
		world_until(w, all_registered(w));
		leader = world_leader(w);
	}
	expect_equal_states(w);
	for (size_t i = 0; i < 3; i++) {
		for (int round = 0; round < 6; round++) {
			for (int k = 0; k < 10; k++) {
				snprintf(name, sizeof(name), "t%d-%d", round, k);
				assert_true(world_has_topic(w, i, name));
			}
		}
	}
}

/* A leader that is cut off answers what it holds "outcome unknown" when it loses the office, and refuses what follows.
 */
static void test_step_down_answers_pending(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const raft_term term = node_term(w->nodes[leader].node);
	isolate(w, leader, true);
	for (uint32_t i = 0; i < 5; i++) {
		char name[32];
		snprintf(name, sizeof(name), "lost%" PRIu32, i);
		world_propose(w, leader, name, i);
	}
	for (uint32_t i = 0; i < 5; i++) {
		const struct node_completion c = world_wait(w, leader);
		assert_true(c.slot == i && c.code == ERR_CLOSED);
	}
	assert_false(node_is_leader(w->nodes[leader].node));
	assert_int_equal(w->nodes[leader].office, 0);
	world_propose(w, leader, "refused", 9);
	assert_int_equal(world_wait(w, leader).code, ERR_NOT_LEADER);
	const size_t next = await_leader_but(w, leader);
	assert_true(node_term(w->nodes[next].node) > term);
	world_create(w, next, "kept");
	isolate(w, leader, false);
	world_until(w, world_has_topic(w, leader, "kept"));
	assert_false(world_has_topic(w, leader, "lost0"));
	expect_equal_states(w);
}

/* A frozen leader wakes up: it acts on nothing it had in hand under its old office (F06). */
static void test_frozen_leader_wakes_powerless(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const raft_term term = node_term(w->nodes[leader].node);
	w->nodes[leader].frozen = true;
	world_propose_entry(w, leader, world_topic_entry("stale"), 1, term, CMD_TOPIC_CREATE);
	const size_t next = await_leader_but(w, leader);
	world_create(w, next, "fresh");
	world_run(w, 5000);
	w->nodes[leader].frozen = false;
	const struct node_completion c = world_wait(w, leader);
	assert_int_equal(c.code, ERR_NOT_LEADER);
	world_until(w, world_has_topic(w, leader, "fresh"));
	world_run(w, 1000);
	for (size_t i = 0; i < 3; i++)
		assert_false(world_has_topic(w, i, "stale"));
	expect_equal_states(w);
}

/* A leader whose log device hangs loses the office, and the others serve (F04). */
static void test_leader_with_hung_disk_steps_down(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	w->nodes[leader].deaf = true;
	world_propose(w, leader, "a", 1);
	const uint64_t begin = world_mono_ms;
	world_until(w, !node_is_leader(w->nodes[leader].node));
	assert_true(world_mono_ms - begin < 5000);
	const size_t next = await_leader_but(w, leader);
	world_create(w, next, "b");
	w->nodes[leader].deaf = false;
	world_until(w, world_has_topic(w, leader, "b"));
	expect_equal_states(w);
}

/* Asked to stop, a leader hands over first: the others miss it for less than an election timeout. */
static void test_stop_hands_over(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_create(w, leader, "a");
	node_begin_stop(w->nodes[leader].node);
	const uint64_t begin = world_mono_ms;
	world_until(w, node_is_drained(w->nodes[leader].node));
	const size_t next = await_leader_but(w, leader);
	assert_true(world_mono_ms - begin < 250);
	world_stop(w, leader);
	world_create(w, next, "b");
	assert_true(world_has_topic(w, next, "a"));
}

static struct node_completion hand_over(struct world *w, size_t leader, const char *to, bool dry_run)
{
	const struct node_reply_to r = { .queue = w->nodes[leader].done, .slot = 1, .generation = 7 };
	assert_true(node_ask_transfer(w->nodes[leader].node, to, dry_run, r));
	return world_wait(w, leader);
}

/* Handing over by name: answered when another leads. To nobody known, to itself: refused, and the leader goes on. */
static void test_F07_transfer_by_name(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t to = other_than(w, leader, leader);
	const struct node_status s = world_status(w, leader);
	const node_id heir = raft_conf_find_name(&s.conf, w->nodes[to].name)->id;
	assert_int_equal(hand_over(w, leader, "n9", false).code, RAFT_HEIR_UNKNOWN);
	assert_int_equal(hand_over(w, leader, w->nodes[leader].name, false).code, RAFT_HEIR_SELF);
	const struct node_completion would = hand_over(w, leader, w->nodes[to].name, true);
	assert_true(would.code == 0 && would.detail == heir);
	world_run(w, 2000);
	assert_int_equal(world_leader(w), leader);
	const uint64_t begin = world_mono_ms;
	const struct node_completion done = hand_over(w, leader, w->nodes[to].name, false);
	assert_true(done.code == 0 && done.detail == heir);
	assert_true(world_mono_ms - begin < 250);
	assert_int_equal(world_leader(w), to);
	assert_int_equal(hand_over(w, leader, "", false).code, RAFT_HEIR_NOT_LEADER);
}

/* F07: one that does not come about is given up, whoever asked hears it, and writes go on. */
static void test_F07_transfer_is_given_up(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t to = other_than(w, leader, leader);
	w->nodes[to].frozen = true; /* answered a moment ago, so it looks fit */
	assert_int_equal(hand_over(w, leader, w->nodes[to].name, false).code, ERR_TIMEOUT);
	assert_int_equal(world_leader(w), leader);
	world_create(w, leader, "after");
}

/* F07: who asked is answered also when nobody is heard of afterwards: the office is gone, and who has it is not known.
 */
static void test_F07_heir_that_is_not_heard_of(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t to = other_than(w, leader, leader);
	const struct node_reply_to r = { .queue = w->nodes[leader].done, .slot = 1, .generation = 7 };
	assert_true(node_ask_transfer(w->nodes[leader].node, w->nodes[to].name, false, r));
	isolate(w, other_than(w, leader, to), true); /* so that the old leader's vote is needed */
	while (world_status(w, leader).role == RAFT_LEADER)
		world_step(w);
	isolate(w, leader, true);
	const struct node_completion c = world_wait(w, leader);
	assert_true(c.code == 0 && c.detail == 0);
}

/* Right after an election the winner's log is complete, its state is not: until its own no-op is applied it does not
 * call its replica current, and a read index waits for more than it has (F30). */
static void test_new_leader_is_current_only_after_its_noop(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t winner = other_than(w, leader, leader);
	const size_t third = other_than(w, leader, winner);
	isolate(w, third, true); /* so that only `winner` has what follows */
	w->nodes[winner].slow = true;
	raft_index last = 0;
	for (int i = 0; i < 20; i++) {
		char name[32];
		snprintf(name, sizeof(name), "t%d", i);
		last = world_create(w, leader, name);
	}
	world_stop(w, leader);
	isolate(w, third, false);
	world_until(w, world_leader(w) == winner);
	world_run(w, 500);
	assert_int_equal(world_leader(w), winner);
	assert_true(world_applied(w, winner) < last);
	char why[200];
	assert_false(node_is_caught_up(w->nodes[winner].node, why, sizeof(why)));
	assert_non_null(strstr(why, "applied"));
	const struct node_reply_to r = { .queue = w->nodes[winner].done, .slot = 1, .generation = 7 };
	assert_true(node_ask_read(w->nodes[winner].node, r));
	const struct node_completion c = world_wait(w, winner);
	assert_true(c.code == 0 && c.index >= last);
	w->nodes[winner].slow = false;
	world_until(w, node_is_caught_up(w->nodes[winner].node, NULL, 0));
	assert_true(world_has_topic(w, winner, "t19"));
}

/* At the very moment of winning nothing of the new term is committed, and the replica is not called current, however
 * well its indexes agree with each other (F30). */
static void test_election_proves_the_log_only(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const raft_index last = world_create(w, leader, "a");
	world_until(w, all_applied(w, last));
	world_stop(w, leader);
	size_t winner = WORLD_NODES;
	for (int step = 0; winner == WORLD_NODES && step < 4000; step++) {
		if (step % 4 == 0)
			world_advance(w);
		world_round(w);
		winner = world_leader(w);
	}
	assert_true(winner < WORLD_NODES);
	const struct node_status s = world_status(w, winner);
	assert_true(s.commit_index < s.term_start && world_applied(w, winner) >= s.commit_index);
	assert_false(node_is_caught_up(w->nodes[winner].node, NULL, 0));
	world_until(w, node_is_caught_up(w->nodes[winner].node, NULL, 0));
}

/* A node whose own consensus thread stands still knows a leader and a commit index, and is current no longer. */
static void test_old_contact_is_no_contact(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	world_create(w, leader, "a");
	world_until(w, node_is_caught_up(w->nodes[follower].node, NULL, 0));
	w->nodes[follower].frozen = true;
	world_run(w, 4000);
	assert_true(node_is_caught_up(w->nodes[follower].node, NULL, 0));
	world_run(w, 2000);
	char why[200];
	assert_false(node_is_caught_up(w->nodes[follower].node, why, sizeof(why)));
	assert_non_null(strstr(why, "no contact with the leader for"));
	w->nodes[follower].frozen = false;
	world_until(w, node_is_caught_up(w->nodes[follower].node, NULL, 0));
}

/* A follower without the leader's word is not current: not at start, not 5 s after the last contact. */
static void test_contact_makes_current(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	world_create(w, leader, "a");
	world_until(w, node_is_caught_up(w->nodes[follower].node, NULL, 0));
	isolate(w, follower, true);
	world_run(w, 6000);
	char why[200];
	assert_false(node_is_caught_up(w->nodes[follower].node, why, sizeof(why)));
	assert_true(node_contact_age_ms(w->nodes[follower].node) >= 5000);
	world_stop(w, follower);
	world_start(w, follower);
	world_run(w, 1000);
	assert_true(world_has_topic(w, follower, "a"));
	assert_false(node_is_caught_up(w->nodes[follower].node, why, sizeof(why)));
	isolate(w, follower, false);
	world_until(w, node_is_caught_up(w->nodes[follower].node, NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, trio_setup, world_teardown)
		TEST(test_bootstrap_waits_for_all),
		TEST(test_bootstrap_ignores_late_answers),
		TEST(test_told_of_a_cluster_it_begins_none),
		TEST(test_wiped_node_begins_nothing),
		TEST(test_unnamed_node_never_begins),
		TEST(test_bootstrap_survives_crashes),
		TEST(test_writes_reach_everybody),
		TEST(test_follower_refuses_proposals),
		TEST(test_follower_reads_the_leaders_index),
		TEST(test_read_without_quorum_fails),
		TEST(test_leader_loss_loses_nothing),
		TEST(test_step_down_answers_pending),
		TEST(test_frozen_leader_wakes_powerless),
		TEST(test_leader_with_hung_disk_steps_down),
		TEST(test_stop_hands_over),
		TEST(test_F07_transfer_by_name),
		TEST(test_F07_transfer_is_given_up),
		TEST(test_F07_heir_that_is_not_heard_of),
		TEST(test_new_leader_is_current_only_after_its_noop),
		TEST(test_election_proves_the_log_only),
		TEST(test_old_contact_is_no_contact),
		TEST(test_contact_makes_current),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
