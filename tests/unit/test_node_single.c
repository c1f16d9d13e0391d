/* One node, its threads' turns given by hand: what it serves, what it refuses, and how it stops. */
#include "tests/unit/node_world.h"

#include <signal.h>
#include <sys/resource.h>

#include "fsm/reader.h"

/* ---- the good path ---- */

/* --bootstrap on an empty directory: leader of itself, registered, every proposal answered with its index. */
static void test_bootstrap_serves_writes(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	const struct node_status s = world_status(w, 0);
	assert_true(s.configured && s.cluster_id != 0);
	assert_string_equal(s.leader, "n1");
	assert_int_equal(s.conf.count, 1);
	assert_int_equal(w->nodes[0].office, s.term);
	const raft_index a = world_create(w, 0, "a");
	const raft_index b = world_create(w, 0, "b");
	assert_true(b > a);
	assert_true(world_has_topic(w, 0, "a") && world_has_topic(w, 0, "b"));
	struct fsm_member m;
	assert_true(world_member(w, 0, "n1", &m));
	assert_true(m.alive && m.placeable);
	assert_int_equal(m.entry_types, fsm_max_known_type());
	char why[128];
	assert_true(node_is_caught_up(w->nodes[0].node, why, sizeof(why)));
}

/* A refused entry is answered with the refusal and the place of the refused command, and consumed. */
static void test_refusal_reaches_the_proposer(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	world_propose(w, 0, "a", 5);
	const struct node_completion c = world_wait(w, 0);
	assert_int_equal(c.slot, 5);
	assert_int_equal(c.code, FSM_TOPIC_EXISTS);
	assert_int_equal(c.detail, 0);
	assert_true(world_applied(w, 0) >= c.index);
}

/* Many proposals in one turn are one batch, answered in the order of their indexes, none lost. */
static void test_batch_is_answered_in_order(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	char name[32];
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "t%" PRIu32, i);
		world_propose(w, 0, name, i);
	}
	raft_index before = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		const struct node_completion c = world_wait(w, 0);
		assert_int_equal(c.slot, i);
		assert_int_equal(c.code, 0);
		assert_true(c.index > before);
		before = c.index;
	}
}

/* The leader's own read index covers what it answered before. */
static void test_read_index_covers_writes(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	const raft_index a = world_create(w, 0, "a");
	const struct node_reply_to r = { .queue = w->nodes[0].done, .slot = 3, .generation = 7 };
	assert_true(node_ask_read(w->nodes[0].node, r));
	const struct node_completion c = world_wait(w, 0);
	assert_int_equal(c.code, 0);
	assert_true(c.index >= a);
}

/* Time in the log never goes back, whatever the wall clock does, also across a restart. */
static void test_time_never_goes_back(void **state)
{
	struct world *w = *state;
	const uint64_t wall = world_wall_ms;
	world_start_leader(w);
	struct slab *first = slab_ref(world_topic_entry("a"));
	world_propose_entry(w, 0, first, 1, 0, CMD_TOPIC_CREATE);
	world_wait(w, 0);
	world_stop(w, 0);
	world_wall_ms = wall - 3600000;
	world_start_leader(w);
	struct slab *second = slab_ref(world_topic_entry("b"));
	world_propose_entry(w, 0, second, 2, 0, CMD_TOPIC_CREATE);
	world_wait(w, 0);
	const uint64_t a = entry_time_ms(first->data, first->len);
	const uint64_t b = entry_time_ms(second->data, second->len);
	assert_true(a >= wall);
	assert_true(b >= a);
	slab_unref(first);
	slab_unref(second);
	world_wall_ms = wall + 3600000;
}

/* A watcher that waits for an index is woken once it is applied, and its wish is taken back. */
static void test_watcher_is_woken(void **state)
{
	struct world *w = *state;
	struct wake wake;
	wake_init(&wake);
	world_start(w, 0);
	struct node_watcher watcher = { .wake = &wake };
	node_add_watcher(w->nodes[0].node, &watcher);
	world_until(w, node_is_leader(w->nodes[0].node));
	world_until(w, world_status(w, 0).registered);
	const raft_index a = world_create(w, 0, "a");
	atomic_store(&watcher.want, a + 2);
	wake_prepare(&wake);
	assert_int_equal(world_create(w, 0, "b"), a + 1);
	assert_int_equal(atomic_load(&watcher.want), a + 2);
	assert_int_equal(atomic_load(&wake.asleep), 1);
	world_create(w, 0, "c");
	assert_int_equal(atomic_load(&watcher.want), 0);
	assert_int_equal(atomic_load(&wake.asleep), 0); /* a signal found it asleep */
	wake_clear(&wake);
	world_stop(w, 0);
	wake_fini(&wake);
}

/* Nobody to hand over to: an orderly stop of a single node is done as soon as what it holds is answered. */
static void test_stop_of_a_single_node(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	node_begin_stop(w->nodes[0].node);
	assert_false(node_is_drained(w->nodes[0].node));
	world_until(w, node_is_drained(w->nodes[0].node));
	assert_true(world_status(w, 0).stopping);
}

/* ---- what is refused at append ---- */

/* A proposal made under another term never reaches the log (F06). */
static void test_term_is_checked_at_append(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	const raft_term term = node_term(w->nodes[0].node);
	world_propose_entry(w, 0, world_topic_entry("old"), 1, term - 1, CMD_TOPIC_CREATE);
	world_propose_entry(w, 0, world_topic_entry("now"), 2, term, CMD_TOPIC_CREATE);
	struct node_completion c = world_wait(w, 0);
	assert_true(c.slot == 1 && c.code == ERR_NOT_LEADER);
	c = world_wait(w, 0);
	assert_true(c.slot == 2 && c.code == 0);
	assert_false(world_has_topic(w, 0, "old"));
}

/* An entry type that a server does not claim to know is held back at append, older ones pass (F26). */
static void test_gate_is_checked_at_append(void **state)
{
	struct world *w = *state;
	w->nodes[0].options.max_entry_type = 32;
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	assert_int_equal(world_status(w, 0).cluster_min_type, 32);
	const raft_index last = world_status(w, 0).last_index;
	world_propose_entry(w, 0, world_topic_entry("new"), 1, 0, 33);
	const struct node_completion c = world_wait(w, 0);
	assert_int_equal(c.code, ERR_VERSION);
	assert_int_equal(world_status(w, 0).last_index, last);
	world_propose_entry(w, 0, world_topic_entry("old"), 1, 0, 32);
	assert_int_equal(world_wait(w, 0).code, 0);
}

/* The row of a server that is in no configuration holds new types back as well: it may come back (F26). */
static void test_gate_counts_every_servers_row(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	assert_int_equal(world_status(w, 0).cluster_min_type, fsm_max_known_type());
	const struct member m = { .id = STR_LIT("old"),
		                  .addr = STR_LIT("h:1"),
		                  .cluster_addr = STR_LIT("h:2"),
		                  .status = STR_LIT(MEMBER_ALIVE),
		                  .last_heartbeat = 1,
		                  .entry_types = 25 };
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_MEMBER_JOIN, &m);
	const struct entry_header h = { .origin = STR_LIT("n1") };
	struct slab *entry = NULL;
	struct err e = { 0 };
	assert_int_equal(entry_builder_finish(&b, &h, &entry, &e), 0);
	entry_builder_fini(&b);
	world_propose_entry(w, 0, entry, 1, 0, CMD_MEMBER_JOIN);
	assert_int_equal(world_wait(w, 0).code, 0);
	world_step(w);
	assert_int_equal(world_status(w, 0).cluster_min_type, 25);
}

/* A proposal before there is a leader is refused, not kept. */
static void test_without_a_leader_nothing_is_kept(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	world_propose(w, 0, "a", 1);
	(void)node_turn(w->nodes[0].node, world_mono_ms);
	struct node_completion c;
	assert_true(queue_take(w->nodes[0].done, &c));
	assert_int_equal(c.code, ERR_NOT_LEADER);
}

/* ---- tags ---- */

/* Tags and --own-partitions off are written with the first registration; a restart that says otherwise, each way, is
 * written once and then left alone. An operator's cordon is not the options' and stays through all of it. */
static void test_tags_follow_the_options(void **state)
{
	struct world *w = *state;
	w->nodes[0].options.tags_json = "{\"zone\":\"z\",\"rack\":\"r1\"}";
	w->nodes[0].options.own_partitions = false;
	w->nodes[0].options.member_heartbeat_ms = 500;
	world_start_leader(w);
	struct fsm_member m;
	world_until(w, world_member(w, 0, "n1", &m) && !m.placeable);
	assert_non_null(strstr(m.tags.p, "\"rack\":\"r1\""));
	const raft_index settled = world_status(w, 0).last_index;
	world_run(w, 2000);
	assert_true(world_status(w, 0).last_index <= settled + 5); /* heartbeats only */
	world_stop(w, 0);
	w->nodes[0].options.tags_json = NULL;
	world_start_leader(w);
	world_until(w, world_member(w, 0, "n1", &m) && str_is(m.tags, "{}"));
	assert_false(m.offers);
	for (int on = 1; on >= 0; on--) {
		world_stop(w, 0);
		w->nodes[0].options.own_partitions = on;
		world_start_leader(w);
		world_until(w, world_member(w, 0, "n1", &m) && m.offers == on);
		assert_int_equal(m.placeable, on);
	}
	const struct cmd_member_cordon cordon = { STR_LIT("n1"), true };
	struct entry_builder b;
	struct err e;
	struct slab *entry = NULL;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_MEMBER_CORDON, &cordon);
	assert_int_equal(entry_builder_finish(&b, &(struct entry_header){ .origin = STR_LIT("n1") }, &entry, &e), 0);
	entry_builder_fini(&b);
	world_propose_entry(w, 0, entry, 1, 0, CMD_MEMBER_CORDON);
	assert_int_equal(world_wait(w, 0).code, 0);
	w->nodes[0].options.own_partitions = true;
	world_stop(w, 0);
	world_start_leader(w);
	world_until(w, world_member(w, 0, "n1", &m) && m.offers);
	assert_false(m.placeable);
	const raft_index reported = world_status(w, 0).last_index;
	world_run(w, 2000);
	assert_true(world_status(w, 0).last_index <= reported + 5);
	assert_true(world_member(w, 0, "n1", &m) && m.offers && !m.placeable);
}

/* ---- disks that fail ---- */

static void limit_file_size(rlim_t bytes)
{
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit r;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* A log write that fails: nothing is acknowledged, the leader steps down, the node says why, a restart has the rest
 * (F22). */
static void test_failed_log_write_stops_the_node(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	world_propose(w, 0, "b", 2);
	limit_file_size(16);
	world_mono_ms += 5;
	(void)node_turn(w->nodes[0].node, world_mono_ms);
	assert_true(node_log_turn(w->nodes[0].node));
	limit_file_size(RLIM_INFINITY);
	const struct node_completion c = world_wait(w, 0);
	assert_true(c.slot == 2 && c.code == ERR_CLOSED);
	world_run(w, 50);
	assert_false(node_is_leader(w->nodes[0].node));
	assert_non_null(strstr(world_status(w, 0).stopped, "raft log"));
	assert_int_equal(w->nodes[0].office, 0);
	world_propose(w, 0, "c", 3);
	assert_int_equal(world_wait(w, 0).code, ERR_STOPPED);
	char why[300];
	assert_false(node_is_caught_up(w->nodes[0].node, why, sizeof(why)));
	assert_non_null(strstr(why, "stopped"));
	world_stop(w, 0);
	world_start_leader(w);
	assert_true(world_has_topic(w, 0, "a"));
	world_create(w, 0, "d");
}

/* An fsm.mdb that cannot be written: tried again, answered when it works again, nothing lost. */
static void test_failed_apply_is_retried(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	world_propose(w, 0, "b", 2);
	const uint64_t until = world_mono_ms + 3000;
	while (world_mono_ms < until) {
		world_mono_ms += 20;
		(void)node_turn(w->nodes[0].node, world_mono_ms);
		while (node_log_turn(w->nodes[0].node))
			;
		limit_file_size(16);
		while (node_apply_turn(w->nodes[0].node))
			;
		limit_file_size(RLIM_INFINITY);
	}
	assert_true(world_logged("metastore: could not write raft entry; retrying"));
	assert_int_equal(world_status(w, 0).stopped[0], '\0');
	assert_false(world_has_topic(w, 0, "b"));
	struct node_completion c;
	assert_false(queue_take(w->nodes[0].done, &c));
	c = world_wait(w, 0);
	assert_true(c.slot == 2 && c.code == 0);
	assert_true(world_has_topic(w, 0, "b"));
}

/* While somebody reads for long, commits keep a distance, so that the file does not grow with every one of them. */
static void test_commits_are_spaced_under_an_old_reader(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	struct node *n = w->nodes[0].node;
	struct fsm_reader reader;
	fsm_reader_init(&reader, node_fsm(n));
	struct store_txn *txn;
	struct err e = { 0 };
	assert_int_equal(fsm_read(&reader, &txn, &e), 0);
	world_run(w, 100);
	world_create(w, 0, "a");
	/* Right behind that commit: the next one waits until 5 ms have passed, and asks for a turn then. */
	world_propose(w, 0, "b", 2);
	(void)node_turn(n, world_mono_ms);
	assert_true(node_log_turn(n));
	(void)node_turn(n, world_mono_ms);
	assert_false(node_apply_turn(n));
	assert_true(node_turn(n, world_mono_ms) <= world_mono_ms + 5);
	world_mono_ms += 4;
	assert_false(node_apply_turn(n));
	world_mono_ms += 1;
	assert_true(node_apply_turn(n));
	assert_int_equal(world_wait(w, 0).slot, 2);
	fsm_read_end(&reader);
	fsm_reader_fini(&reader);
}

/* After 30 s of that the node stops; the entry is not applied, its proposer is told nobody knows, a restart has it. */
static void test_failed_apply_stops_after_30_s(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	const raft_index applied = world_create(w, 0, "a");
	world_propose(w, 0, "b", 2);
	const uint64_t begin = world_mono_ms;
	while (world_status(w, 0).stopped[0] == '\0' && world_mono_ms < begin + 40000) {
		world_mono_ms += 20;
		(void)node_turn(w->nodes[0].node, world_mono_ms);
		while (node_log_turn(w->nodes[0].node))
			;
		limit_file_size(16);
		while (node_apply_turn(w->nodes[0].node))
			;
		limit_file_size(RLIM_INFINITY);
	}
	assert_in_range(world_mono_ms - begin, 20000, 31000);
	assert_true(world_logged("metastore: stopped applying raft entries"));
	assert_true(world_applied(w, 0) <= applied + 1);
	const struct node_completion c = world_wait(w, 0);
	assert_true(c.slot == 2 && c.code == ERR_CLOSED);
	assert_false(node_is_leader(w->nodes[0].node));
	world_stop(w, 0);
	world_start_leader(w);
	world_create(w, 0, "c");
	assert_true(world_has_topic(w, 0, "b"));
}

/* An entry type this build does not know stops the node at that very entry, again after a restart; it is never skipped.
 */
static void test_unknown_type_stops_the_node(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	struct slab *s = world_topic_entry("x");
	struct entry_view v;
	struct err e = { 0 };
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
	s->data[v.commands - s->data] = 250; /* a type of some later release */
	world_propose(w, 0, "before", 1);
	world_propose_entry(w, 0, s, 2, 0, 0);
	world_propose(w, 0, "after", 3);
	struct node_completion c = world_wait(w, 0);
	assert_true(c.slot == 1 && c.code == 0);
	const raft_index before = c.index;
	c = world_wait(w, 0);
	assert_true(c.slot == 2 && c.code == ERR_CLOSED);
	c = world_wait(w, 0);
	assert_true(c.slot == 3 && (c.code == ERR_CLOSED || c.code == ERR_STOPPED));
	world_run(w, 50);
	assert_int_equal(world_applied(w, 0), before);
	assert_true(world_logged("metastore: stopped applying raft entries"));
	assert_true(world_logged("type=250"));
	world_stop(w, 0);
	world_log_clear();
	world_start(w, 0);
	world_until(w, world_status(w, 0).stopped[0] != '\0');
	assert_int_equal(world_applied(w, 0), before);
	assert_true(world_logged("type=250"));
	assert_false(world_has_topic(w, 0, "after"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup_one, world_teardown)
		TEST(test_bootstrap_serves_writes),
		TEST(test_refusal_reaches_the_proposer),
		TEST(test_batch_is_answered_in_order),
		TEST(test_read_index_covers_writes),
		TEST(test_time_never_goes_back),
		TEST(test_watcher_is_woken),
		TEST(test_stop_of_a_single_node),
		TEST(test_term_is_checked_at_append),
		TEST(test_gate_is_checked_at_append),
		TEST(test_gate_counts_every_servers_row),
		TEST(test_without_a_leader_nothing_is_kept),
		TEST(test_tags_follow_the_options),
		TEST(test_failed_log_write_stops_the_node),
		TEST(test_failed_apply_is_retried),
		TEST(test_failed_apply_stops_after_30_s),
		TEST(test_commits_are_spaced_under_an_old_reader),
		TEST(test_unknown_type_stops_the_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
