/* One node that takes snapshots: what becomes of its log and files, and what its starts make of them. */
#include "tests/unit/node_snap.h"

#include <inttypes.h>

#include "node/snapshots.h"

static int setup(void **state)
{
	const int rc = world_setup_one(state);
	struct world *w = *state;
	w->nodes[0].options.segment_bytes = 2048;
	w->nodes[0].options.snapshot_entries = 1u << 30;
	return rc;
}

static const char *in_dir(const struct world *w, const char *name)
{
	return snap_path(w, 0, name);
}

/* Three snapshots with 20 topics before each, a's, b's and c's, and 5 d's behind; stopped in good order. */
struct three {
	raft_index at[3];
	char newest[600], older[600];
};

static struct three take_three(struct world *w)
{
	struct three t;
	static const char *const words[] = { "a", "b", "c" };
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	for (int i = 0; i < 3; i++) {
		snap_create(w, 0, words[i], 20);
		t.at[i] = snap_take(w, 0);
	}
	snap_create(w, 0, "d", 5);
	const raft_term term = world_status(w, 0).term;
	snprintf(t.newest, sizeof(t.newest), "%s/%" PRIu64 "-%" PRIu64 ".mdb", in_dir(w, "snapshots"), t.at[2], term);
	snprintf(t.older, sizeof(t.older), "%s/%" PRIu64 "-%" PRIu64 ".mdb", in_dir(w, "snapshots"), t.at[1], term);
	assert_true(snap_exists(t.newest) && snap_exists(t.older));
	return t;
}

static void expect_all(struct world *w)
{
	snap_expect_topics(w, 0, "a", 20);
	snap_expect_topics(w, 0, "b", 20);
	snap_expect_topics(w, 0, "c", 20);
	snap_expect_topics(w, 0, "d", 5);
	snap_expect_sound(w, 0);
}

/* The state is not to be believed: the next start must do without. */
static void stop_untrusted(struct world *w)
{
	world_stop(w, 0);
	assert_int_equal(unlink(in_dir(w, "fsm.mark")), 0);
}

/* ---- taking ---- */

/* Asked for: answered once it is there, two are kept, and the log goes back to the older of them and no further. */
static void test_taken_when_asked(void **state)
{
	struct world *w = *state;
	const struct three t = take_three(w);
	struct node_status s = world_status(w, 0);
	assert_int_equal(s.snapshot_index, t.at[2]);
	assert_int_equal(s.snapshots.index, t.at[2]);
	assert_int_equal(s.snapshots.taken, 3);
	assert_int_equal(s.snapshots.bytes, snap_size(t.newest));
	assert_int_equal(s.first_index, t.at[1] + 1);
	assert_int_equal(snap_count(in_dir(w, "snapshots"), ""), 2);
	assert_int_equal(snap_count(in_dir(w, ""), "fsm.snapshot-"), 0);
	/* Nothing was applied since: the same one again. */
	snap_take(w, 0);
	const raft_index again = snap_take(w, 0);
	assert_int_equal(world_status(w, 0).snapshots.taken, 4);
	assert_int_equal(again, world_status(w, 0).snapshot_index);
}

/* By itself: after so many entries, when it is looked for. */
static void test_taken_after_so_many_entries(void **state)
{
	struct world *w = *state;
	w->nodes[0].options.snapshot_entries = 30;
	w->nodes[0].options.snapshot_interval_s = 2;
	world_start_leader(w);
	snap_create(w, 0, "a", 20);
	world_run(w, 5000);
	assert_int_equal(world_status(w, 0).snapshots.taken, 0);
	snap_create(w, 0, "b", 20);
	world_run(w, 2100);
	assert_int_equal(world_status(w, 0).snapshots.taken, 1);
	world_run(w, 5000);
	assert_int_equal(world_status(w, 0).snapshots.taken, 1);
	snap_create(w, 0, "c", 31);
	world_run(w, 2100);
	assert_int_equal(world_status(w, 0).snapshots.taken, 2);
}

/* A copy that cannot be written, read or renamed is refused to whoever asked and counted; the node goes on, nothing is
 * left of it, and the next one is good. Each call in turn. */
static void test_failed_copy_is_counted_and_made_again(void **state)
{
	struct world *w = *state;
	(void)take_three(w);
	char prefix[600];
	snprintf(prefix, sizeof(prefix), "%s", in_dir(w, "fsm.snapshot-"));
	unsigned failed = 0;
	for (unsigned at = 1;; at++) {
		char name[32];
		snprintf(name, sizeof(name), "e%u", at);
		world_create(w, 0, name);
		snap_arm(prefix, at, at % 2 ? ENOSPC : EIO);
		const struct node_completion c = snap_ask(w, 0);
		const bool struck = snap_disk.calls >= at;
		snap_arm("", 0, 0);
		assert_int_equal(world_status(w, 0).stopped[0], '\0');
		if (!struck) {
			assert_int_equal(c.code, 0);
			break;
		}
		assert_int_equal(c.code, at % 2 ? ERR_FULL : ERR_IO);
		assert_int_equal(world_status(w, 0).snapshots.failures, ++failed);
		assert_int_equal(snap_count(in_dir(w, ""), "fsm.snapshot-"), 0);
		assert_true(world_logged("could not copy the database for a raft snapshot"));
	}
	assert_true(failed >= 5); /* create, write, sync, rename at the least */
	const raft_index before = world_status(w, 0).snapshot_index;
	assert_true(before > 0);
	stop_untrusted(w);
	world_start_leader(w);
	expect_all(w);
	snap_expect_topics(w, 0, "e1", 0);
	assert_true(world_has_topic(w, 0, "e1"));
}

/* While the copy is made, topics go on being created, and what it says of itself is what it holds. */
static void test_image_says_what_it_holds(void **state)
{
	struct world *w = *state;
	const struct three t = take_three(w);
	struct snapfile_info info;
	struct err e = { 0 };
	assert_int_equal(snapfile_read_info(t.newest, &info, &e), 0);
	assert_int_equal(info.index, t.at[2]);
	assert_int_equal(info.cluster_id, world_status(w, 0).cluster_id);
	assert_int_equal(info.conf.count, 1);
	assert_int_equal(snapfile_verify(t.newest, &info, &e), 0);
	assert_int_equal(snapfile_check_image(t.newest, &info, 0, &e), 0);
	info.index++;
	assert_int_equal(snapfile_check_image(t.newest, &info, 0, &e), ERR_CORRUPT);
}

/* ---- starts ---- */

/* A restart with a state that is trusted applies nothing again and keeps it; the log begins behind entry 1. */
static void test_restart_with_a_short_log(void **state)
{
	struct world *w = *state;
	const struct three t = take_three(w);
	const raft_index applied = world_applied(w, 0);
	world_stop(w, 0);
	world_log_clear();
	world_start(w, 0);
	assert_int_equal(world_applied(w, 0), applied);
	assert_false(world_logged("restored fsm.mdb"));
	assert_true(world_status(w, 0).first_index > 1);
	assert_int_equal(world_status(w, 0).snapshot_index, t.at[2]);
	world_until(w, node_is_leader(w->nodes[0].node));
	expect_all(w);
}

/* F15, F16: a state that is not trusted is made anew of the newest snapshot and the log behind it; left-over copies go.
 */
static void test_untrusted_state_is_rebuilt(void **state)
{
	struct world *w = *state;
	const struct three t = take_three(w);
	const struct fsm_digest before = world_digest(w, 0);
	stop_untrusted(w);
	const int fd = open(in_dir(w, "fsm.snapshot-0123456789abcdef"), O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	world_log_clear();
	world_start(w, 0);
	assert_int_equal(world_applied(w, 0), t.at[2]);
	assert_true(world_logged("restored fsm.mdb from a snapshot"));
	assert_int_equal(snap_count(in_dir(w, ""), "fsm.snapshot-"), 0);
	world_until(w, world_applied(w, 0) >= before.index);
	expect_all(w);
	world_until(w, node_is_leader(w->nodes[0].node));
	world_create(w, 0, "more");
}

static void cut_to(const char *path, off_t len)
{
	assert_int_equal(truncate(path, len), 0);
}

/* F16: the newest snapshot cut short or with a flipped bit, and the state not to be believed: the older one and the log
 * give all of it back; nothing smaller is ever served. */
static void test_F16_damaged_snapshot_falls_back(void **state)
{
	struct world *w = *state;
	struct three t = take_three(w);
	const raft_index all = world_applied(w, 0);
	stop_untrusted(w);
	char kept[600];
	snprintf(kept, sizeof(kept), "%s.kept", w->nodes[0].dir);
	snap_copy_tree(w->nodes[0].dir, kept);
	const off_t size = snap_size(t.newest);
	const off_t lengths[] = { 0, 1, size / 2, size - 1 };
	const off_t bits[] = { 0, 20, 4096 + 40, size / 2, size - 80, size - 200, size - 1 };
	for (size_t i = 0; i < ARRAY_LEN(lengths) + ARRAY_LEN(bits); i++) {
		snap_copy_tree(kept, w->nodes[0].dir);
		if (i < ARRAY_LEN(lengths))
			cut_to(t.newest, lengths[i]);
		else
			snap_flip(t.newest, bits[i - ARRAY_LEN(lengths)]);
		world_log_clear();
		world_start(w, 0);
		assert_true(world_logged("snapshot.damaged"));
		assert_true(world_applied(w, 0) >= t.at[1]);
		world_until(w, node_is_leader(w->nodes[0].node));
		world_until(w, world_applied(w, 0) >= all);
		expect_all(w);
		world_run(w, 3000); /* a good one takes the damaged one's place at once */
		assert_true(world_status(w, 0).snapshot_index > t.at[2]);
		stop_untrusted(w);
		world_start(w, 0);
		expect_all(w);
		world_stop(w, 0);
	}
	world_remove_tree(kept);
}

static void expect_refusal(struct world *w, int code, const char *words)
{
	char kept[600];
	char command[1300];
	struct err e = { 0 };
	snprintf(kept, sizeof(kept), "%s.before", w->nodes[0].dir);
	snap_copy_tree(w->nodes[0].dir, kept);
	const int rc = world_try_start(w, 0, &e);
	if (rc != code || !strstr(e.msg, words))
		fail_msg("rc %d, \"%s\"; expected %d, \"%s\"", rc, e.msg, code, words);
	/* LMDB's lock file holds readers, not data. */
	snprintf(command, sizeof(command), "diff -r -x fsm.mdb-lock %s %s", kept, w->nodes[0].dir);
	assert_int_equal(system(command), 0);
	world_remove_tree(kept);
}

/* F16, F18: both damaged, or none there, and a state that is not to be believed: refused, naming the gap, the damage
 * and what to do; nothing was changed. With a state that is trusted it starts, and makes a snapshot. */
static void test_F18_gap_before_the_log_is_refused(void **state)
{
	struct world *w = *state;
	const struct three t = take_three(w);
	world_stop(w, 0);
	char kept[600];
	char words[100];
	snprintf(kept, sizeof(kept), "%s.kept", w->nodes[0].dir);
	snap_copy_tree(w->nodes[0].dir, kept);
	snap_flip(t.newest, 5000);
	snap_flip(t.older, 5000);
	assert_int_equal(unlink(in_dir(w, "fsm.mark")), 0);
	expect_refusal(w, ERR_CORRUPT, t.newest);
	expect_refusal(w, ERR_CORRUPT, "restore snapshots/ from a backup");
	assert_int_equal(unlink(t.newest), 0);
	assert_int_equal(unlink(t.older), 0);
	snprintf(words, sizeof(words), "entries 1 to ");
	expect_refusal(w, ERR_CORRUPT, words);
	expect_refusal(w, ERR_CORRUPT, "are missing");

	snap_copy_tree(kept, w->nodes[0].dir);
	assert_int_equal(unlink(t.newest), 0);
	assert_int_equal(unlink(t.older), 0);
	world_start_leader(w);
	expect_all(w);
	world_run(w, 1000);
	assert_int_equal(snap_count(in_dir(w, "snapshots"), ""), 1);
	stop_untrusted(w);
	world_start_leader(w);
	expect_all(w);
	world_remove_tree(kept);
}

/* Snapshots and no log: term and vote are lost. Snapshots of another cluster: not ours. */
static void test_snapshots_that_do_not_fit_are_refused(void **state)
{
	struct world *w = *state;
	(void)take_three(w);
	world_stop(w, 0);
	assert_int_equal(rename(in_dir(w, "wal"), in_dir(w, "away")), 0);
	expect_refusal(w, ERR_CORRUPT, "no wal/");
	assert_int_equal(rename(in_dir(w, "away"), in_dir(w, "wal")), 0);
	assert_int_equal(rename(in_dir(w, "node"), in_dir(w, "away")), 0);
	expect_refusal(w, ERR_CORRUPT, "no file `node`");
	assert_int_equal(rename(in_dir(w, "away"), in_dir(w, "node")), 0);
	world_start_leader(w);
	expect_all(w);
}

/* ---- crashes ---- */

/* What the child of a crash test does until its disk ends it: a snapshot, and what follows from it. */
static void run_snapshot(struct world *w, unsigned at)
{
	world_start_leader(w);
	snap_create(w, 0, "d", 5);
	snap_arm(w->nodes[0].dir, at, 0);
	(void)snap_ask(w, 0);
	world_run(w, 200);
	_exit(0);
}

/* Killed at each call that taking a snapshot, cutting the log and removing files makes: the directory starts with all
 * of its state, whether that is trusted or has to be made anew. */
static void test_F18_killed_while_taking(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	snap_create(w, 0, "a", 20);
	snap_take(w, 0);
	snap_create(w, 0, "b", 20);
	snap_take(w, 0);
	snap_create(w, 0, "c", 20);
	world_stop(w, 0);
	char kept[600];
	snprintf(kept, sizeof(kept), "%s.kept", w->nodes[0].dir);
	snap_copy_tree(w->nodes[0].dir, kept);
	unsigned at = 1;
	for (bool more = true; more; at++) {
		snap_copy_tree(kept, w->nodes[0].dir);
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			run_snapshot(w, at);
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == SNAP_CRASHED || WEXITSTATUS(status) == 0));
		more = WEXITSTATUS(status) == SNAP_CRASHED;
		if (at % 2)
			(void)unlink(in_dir(w, "fsm.mark"));
		world_start_leader(w);
		expect_all(w);
		assert_int_equal(snap_count(in_dir(w, ""), "fsm.snapshot-"), 0);
		world_create(w, 0, "more");
		world_stop(w, 0);
	}
	assert_true(at > 10);
	world_remove_tree(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)
		TEST(test_taken_when_asked),
		TEST(test_taken_after_so_many_entries),
		TEST(test_failed_copy_is_counted_and_made_again),
		TEST(test_image_says_what_it_holds),
		TEST(test_restart_with_a_short_log),
		TEST(test_untrusted_state_is_rebuilt),
		TEST(test_F16_damaged_snapshot_falls_back),
		TEST(test_F18_gap_before_the_log_is_refused),
		TEST(test_snapshots_that_do_not_fit_are_refused),
		TEST(test_F18_killed_while_taking),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
