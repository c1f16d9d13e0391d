/* Three nodes, of which one was away while the others cut their logs: it gets an image. */
#include "tests/unit/node_snap.h"

#include "node/snapshots.h"

static int setup(void **state)
{
	const int rc = world_setup(state, 3);
	struct world *w = *state;
	for (size_t i = 0; i < 3; i++) {
		w->nodes[i].options.segment_bytes = 2048;
		w->nodes[i].options.snapshot_entries = 1u << 30;
		w->nodes[i].options.chunk_bytes = 32768;
	}
	return rc;
}

/* How often the text stands in the log. */
static size_t count_logged(const char *text)
{
	size_t count = 0;
	for (const char *at = world_log; (at = strstr(at, text)) != NULL; at++)
		count++;
	return count;
}

/* The running ones take one each, and cut their logs back to the one before. */
static void all_take(struct world *w)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node)
			snap_take(w, i);
	}
}

/* n3 is away; the others have topics a0..a59 and logs that begin behind what n3 has. Returns the leader. */
static size_t leave_third_behind(struct world *w)
{
	size_t leader = start_three(w);
	snap_create(w, leader, "o", 5);
	world_run(w, 200);
	const raft_index has = world_applied(w, 2);
	world_stop(w, 2);
	leader = await_leader_but(w, 2);
	snap_create(w, leader, "a", 30);
	all_take(w);
	for (int k = 30; k < 60; k++) {
		char name[32];
		snprintf(name, sizeof(name), "a%d", k);
		world_create(w, leader, name);
	}
	all_take(w);
	assert_true(world_status(w, leader).first_index > has + 1);
	world_log_clear();
	return leader;
}

static void expect_third_whole(struct world *w, size_t leader)
{
	world_until(w, world_applied(w, 2) >= world_status(w, leader).last_index &&
	                   world_applied(w, leader) == world_applied(w, 2));
	const struct fsm_digest theirs = world_digest(w, leader);
	const struct fsm_digest ours = world_digest(w, 2);
	assert_int_equal(ours.index, theirs.index);
	assert_true(ours.total == theirs.total);
	snap_expect_topics(w, 2, "o", 5);
	snap_expect_topics(w, 2, "a", 60);
	snap_expect_sound(w, 2);
}

/* It gets the image while writes go on, has all, keeps the image as its own snapshot, votes, and starts again from it.
 */
static void test_lagging_follower_gets_an_image(void **state)
{
	struct world *w = *state;
	const size_t leader = leave_third_behind(w);
	world_start(w, 2);
	for (int k = 0; k < 20; k++) {
		char name[32];
		snprintf(name, sizeof(name), "b%d", k);
		world_create(w, leader, name);
	}
	expect_third_whole(w, leader);
	snap_expect_topics(w, 2, "b", 20);
	struct node_status s = world_status(w, 2);
	assert_int_equal(s.snapshots.installed, 1);
	assert_int_equal(s.snapshots.receiving, 0);
	assert_int_equal(s.snapshot_index, s.snapshots.index);
	assert_true(s.first_index > 1);
	assert_false(snap_exists(snap_path(w, 2, "fsm.restore")));
	assert_int_equal(snap_count(snap_path(w, 2, ""), "fsm.snapshot-"), 0);
	world_stop(w, 2);
	assert_int_equal(unlink(snap_path(w, 2, "fsm.mark")), 0);
	world_start(w, 2);
	assert_true(world_logged("restored fsm.mdb from a snapshot"));
	expect_third_whole(w, leader);
	world_stop(w, other_than(w, leader, 2)); /* now its vote is needed */
	world_create(w, leader, "last");
	world_until(w, world_has_topic(w, 2, "last"));
}

/* F17: the log is cut faster than an image arrives. What comes behind an image on its way is kept until it is in, so
 * the follower needs at most three, and the log is cut again afterwards. */
static void test_F17_compaction_faster_than_the_transfer(void **state)
{
	struct world *w = *state;
	for (size_t i = 0; i < 3; i++)
		w->nodes[i].options.chunk_bytes = 2048;
	const size_t leader = leave_third_behind(w);
	world_start(w, 2);
	/* Written until it is there: a snapshot after each 10 entries, an image takes some hundred. */
	int k = 0;
	raft_index held = 0;
	while (world_status(w, 2).snapshots.installed == 0 || world_applied(w, 2) + 20 < world_applied(w, leader)) {
		char name[32];
		assert_true(k < 2000);
		snprintf(name, sizeof(name), "b%d", k++);
		world_create(w, leader, name);
		if (k % 10 == 0)
			snap_take(w, leader);
		const struct node_status s = world_status(w, leader);
		for (size_t p = 0; p < s.peer_count; p++)
			held = s.peers[p].holds ? s.peers[p].holds : held;
	}
	assert_true(k >= 30); /* else the transfer was not slower */
	assert_true(count_logged("snapshot.installed") <= 3);
	assert_true(held > 0); /* the status named who holds the log */
	expect_third_whole(w, leader);
	snap_take(w, leader);
	world_create(w, leader, "more");
	snap_take(w, leader);
	const struct node_status s = world_status(w, leader);
	assert_true(s.last_index - s.first_index < 60);
	for (size_t p = 0; p < s.peer_count; p++)
		assert_int_equal(s.peers[p].holds, 0);
}

/* F16: a damaged file never leaves the leader, who takes a new one in its place at once. */
static void test_F16_damaged_file_is_not_sent(void **state)
{
	struct world *w = *state;
	size_t leader = leave_third_behind(w);
	/* What was written by this process counts as read: both start again. */
	for (size_t i = 0; i < 2; i++) {
		const struct node_snapshots s = world_status(w, i).snapshots;
		char name[64];
		snprintf(name, sizeof(name), "snapshots/%" PRIu64 "-%" PRIu64 ".mdb", s.index, s.term);
		world_stop(w, i);
		snap_flip(snap_path(w, i, name), 9000);
		world_start(w, i);
	}
	world_start(w, 2);
	leader = await_leader_but(w, WORLD_NODES);
	expect_third_whole(w, leader);
	assert_true(world_logged("snapshot.unread"));
	assert_false(world_logged("snapshot.refused"));
	assert_int_equal(world_status(w, leader).snapshots.taken, 1);
}

/* An image that holds newer entry types than this build knows: not installed, the node stops and says so. */
static void test_newer_image_stops_the_node(void **state)
{
	struct world *w = *state;
	size_t leader = leave_third_behind(w);
	world_stop(w, 0);
	w->nodes[0].options.tags_json = "{\"rack\":\"a\"}"; /* needs a type that is younger than any so far */
	world_start(w, 0);
	world_until(w, world_leader(w) < WORLD_NODES && world_status(w, 0).registered);
	leader = world_leader(w);
	world_create(w, leader, "z");
	all_take(w);
	const raft_index before = world_status(w, leader).snapshot_index;
	w->nodes[2].options.max_entry_type = COMMAND_LEGACY_MAX;
	world_start(w, 2);
	const raft_index had = world_applied(w, 2);
	world_until(w, world_status(w, 2).stopped[0] != '\0');
	assert_non_null(strstr(world_status(w, 2).stopped, "snapshot of index"));
	assert_true(had < before);
	assert_int_equal(world_applied(w, 2), had);
	assert_false(world_has_topic(w, 2, "a59"));
	world_stop(w, 2);
	w->nodes[2].options.max_entry_type = 0; /* the release the cluster runs */
	world_start(w, 2);
	expect_third_whole(w, leader);
}

/* ---- crashes ---- */

/* What the child of the crash test does until n3's disk ends it: n3 comes back and is brought up to date. */
static void run_install(struct world *w, unsigned at)
{
	world_start(w, 0);
	world_start(w, 1);
	world_until(w, world_leader(w) < WORLD_NODES);
	world_start(w, 2);
	snap_arm(w->nodes[2].dir, at, 0);
	for (int k = 0; k < 400 && world_status(w, 2).snapshots.installed == 0; k++)
		world_step(w);
	world_run(w, 100);
	_exit(world_status(w, 2).snapshots.installed ? 0 : 1);
}

static void keep_dirs(struct world *w, bool back)
{
	for (size_t i = 0; i < 3; i++) {
		char kept[600];
		snprintf(kept, sizeof(kept), "%s.kept", w->nodes[i].dir);
		snap_copy_tree(back ? kept : w->nodes[i].dir, back ? w->nodes[i].dir : kept);
	}
}

/* F18: killed at each call that receiving an image, checking it and putting it in place makes. n3 starts alone, wholly
 * before or wholly after, also when its state is not to be believed; with the others it catches up. */
static void test_F18_killed_while_installing(void **state)
{
	struct world *w = *state;
	const size_t leader = leave_third_behind(w);
	const raft_index image = world_status(w, leader).snapshot_index;
	for (size_t i = 0; i < 3; i++) {
		if (w->nodes[i].node)
			world_stop(w, i);
	}
	keep_dirs(w, false);
	unsigned at = 1;
	size_t before = 0;
	size_t after = 0;
	for (bool more = true; more; at++) {
		keep_dirs(w, true);
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			run_install(w, at);
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == SNAP_CRASHED || WEXITSTATUS(status) == 0));
		more = WEXITSTATUS(status) == SNAP_CRASHED;
		if (at % 2)
			(void)unlink(snap_path(w, 2, "fsm.mark"));
		world_start(w, 2);
		world_run(w, 100);
		if (world_applied(w, 2) >= image) {
			after++;
			snap_expect_topics(w, 2, "a", 60);
		} else {
			before++;
			assert_false(world_has_topic(w, 2, "a59"));
		}
		snap_expect_sound(w, 2);
		assert_false(snap_exists(snap_path(w, 2, "fsm.restore")));
		world_start(w, 0);
		world_start(w, 1);
		world_until(w, world_leader(w) < WORLD_NODES);
		expect_third_whole(w, world_leader(w));
		for (size_t i = 0; i < 3; i++)
			world_stop(w, i);
	}
	assert_true(before > 5 && after > 5);
}

/* Each of those calls fails in turn: the image is refused and comes anew, or, where the state itself cannot be kept,
 * the node stops; it never serves anything between. */
static void test_F18_disk_fails_while_installing(void **state)
{
	struct world *w = *state;
	const size_t leader = leave_third_behind(w);
	char restore[600];
	for (size_t i = 0; i < 3; i++) {
		if (w->nodes[i].node)
			world_stop(w, i);
	}
	(void)leader;
	keep_dirs(w, false);
	snprintf(restore, sizeof(restore), "%s", snap_path(w, 2, "fsm.restore"));
	for (unsigned at = 1; at < 12; at++) {
		keep_dirs(w, true);
		world_log_clear();
		for (size_t i = 0; i < 3; i++)
			world_start(w, i);
		snap_arm(restore, at, at % 2 ? ENOSPC : EIO);
		world_until(w, world_status(w, 2).snapshots.installed > 0 || world_status(w, 2).stopped[0] != '\0');
		const bool struck = snap_disk.calls >= at;
		snap_arm("", 0, 0);
		if (world_status(w, 2).stopped[0] == '\0') {
			expect_third_whole(w, world_leader(w));
			assert_int_equal(world_status(w, 2).snapshots.refused, struck ? 1 : 0);
		}
		for (size_t i = 0; i < 3; i++)
			world_stop(w, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)
		TEST(test_lagging_follower_gets_an_image), TEST(test_F17_compaction_faster_than_the_transfer),
		TEST(test_F16_damaged_file_is_not_sent),   TEST(test_newer_image_stops_the_node),
		TEST(test_F18_killed_while_installing),    TEST(test_F18_disk_fails_while_installing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
