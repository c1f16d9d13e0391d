/* The restart decision table (src/node/recover.c), a test for each row, in both modes of syncing: what becomes of the
 * directory, what the log says, and for a refusal that no byte was changed. Refusals of this table are exit 3. */
#include "tests/unit/node_snap.h"

#include "node/snapshots.h"

static const char *const join_there[] = { "127.0.0.1:7999" };

static int setup_mode(void **state, bool sync_fsm)
{
	const int rc = world_setup_one(state);
	struct world *w = *state;
	w->nodes[0].options.segment_bytes = 2048;
	w->nodes[0].options.snapshot_entries = 1u << 30;
	w->nodes[0].options.sync_fsm = sync_fsm;
	return rc;
}

static int setup_log(void **state)
{
	return setup_mode(state, false);
}

static int setup_fsm(void **state)
{
	return setup_mode(state, true);
}

/* ---- directories to make rows of ---- */

/* `early` is a copy of the directory at an earlier clean stop, with one snapshot, or none if not `with_snapshots`; the
 * directory itself went on from there: b's, c's and, behind the last snapshot, d's. */
struct past {
	char early[600];
	raft_index early_applied, applied;
	raft_index first; /* of the log */
	struct fsm_digest digest;
	node_id incarnation;
};

static node_id incarnation_of(const struct world *w)
{
	struct net_hello h;
	node_self_hello(w->nodes[0].node, &h);
	return h.incarnation;
}

static const char *in_dir(const struct world *w, const char *name)
{
	return snap_path(w, 0, name);
}

static struct past make_past(struct world *w, bool with_snapshots)
{
	struct past p;
	snprintf(p.early, sizeof(p.early), "%s/early", w->root);
	world_start_leader(w);
	world_until(w, world_status(w, 0).registered);
	snap_create(w, 0, "a", 20);
	if (with_snapshots)
		(void)snap_take(w, 0);
	p.early_applied = world_applied(w, 0);
	p.incarnation = incarnation_of(w);
	world_stop(w, 0);
	snap_copy_tree(w->nodes[0].dir, p.early);
	world_start_leader(w);
	snap_create(w, 0, "b", 20);
	if (with_snapshots)
		(void)snap_take(w, 0);
	snap_create(w, 0, "c", 20);
	if (with_snapshots)
		(void)snap_take(w, 0);
	snap_create(w, 0, "d", 5);
	p.applied = world_applied(w, 0);
	p.first = world_status(w, 0).first_index;
	p.digest = world_digest(w, 0);
	assert_true(with_snapshots ? p.first > p.early_applied : p.first == 1);
	world_stop(w, 0);
	world_log_clear();
	return p;
}

/* Puts what `early` has under this name in the place of what is there. */
static void take_back(const struct world *w, const struct past *p, const char *name)
{
	char command[1400];
	snprintf(command, sizeof(command), "rm -rf %s && cp -a %s/%s %s", in_dir(w, name), p->early, name,
	         in_dir(w, name));
	assert_int_equal(system(command), 0);
}

static void lose(const struct world *w, const char *name)
{
	char command[700];
	snprintf(command, sizeof(command), "rm -r %s", in_dir(w, name));
	assert_int_equal(system(command), 0);
}

static void lose_snapshots(const struct world *w)
{
	char command[700];
	snprintf(command, sizeof(command), "rm %s/*", in_dir(w, "snapshots"));
	assert_int_equal(system(command), 0);
}

static void start_to_join(struct world *w)
{
	w->nodes[0].options.bootstrap = false;
	w->nodes[0].options.join = join_there;
	w->nodes[0].options.join_count = 1;
	world_start(w, 0);
}

static void expect_refusal(struct world *w, const char *words)
{
	char kept[600];
	char command[1400];
	struct err e = { 0 };
	snprintf(kept, sizeof(kept), "%s.before", w->nodes[0].dir);
	snap_copy_tree(w->nodes[0].dir, kept);
	for (int again = 0; again < 2; again++) { /* and a second start refuses again */
		const int rc = world_try_start(w, 0, &e);
		if (rc != ERR_CORRUPT || !strstr(e.msg, words))
			fail_msg("rc %d, \"%s\"; expected \"%s\"", rc, e.msg, words);
		/* LMDB's lock file holds readers, not data. */
		snprintf(command, sizeof(command), "diff -r -x fsm.mdb-lock %s %s", kept, w->nodes[0].dir);
		assert_int_equal(system(command), 0);
	}
	world_remove_tree(kept);
}

/* All that was acknowledged is there, in the very state of before. */
static void expect_everything(struct world *w, const struct past *p)
{
	world_until(w, node_is_leader(w->nodes[0].node));
	world_until(w, world_applied(w, 0) >= p->applied);
	assert_true(world_digest(w, 0).db[STORE_TOPICS] == p->digest.db[STORE_TOPICS]);
	assert_true(world_digest(w, 0).db[STORE_ASSIGNMENTS] == p->digest.db[STORE_ASSIGNMENTS]);
	snap_expect_topics(w, 0, "a", 20);
	snap_expect_topics(w, 0, "b", 20);
	snap_expect_topics(w, 0, "c", 20);
	snap_expect_topics(w, 0, "d", 5);
	snap_expect_sound(w, 0);
	assert_true(incarnation_of(w) == p->incarnation);
	world_create(w, 0, "more");
}

#define LOG_RESTORED "restored fsm.mdb from a snapshot"
#define LOG_ASIDE "set fsm.mdb aside as fsm.stale"

static void expect_logged(bool restored, bool aside)
{
	assert_int_equal(world_logged(LOG_RESTORED), restored);
	assert_int_equal(world_logged(LOG_ASIDE), aside);
}

/* ---- the rows ---- */

/* Nothing there, may bootstrap: starts empty and begins a cluster. */
static void test_row_nothing_none_begins(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	expect_logged(false, false);
	assert_false(snap_exists(in_dir(w, "fsm.stale")));
	world_create(w, 0, "a");
}

/* Nothing there, to join: starts empty and begins nothing. */
static void test_row_nothing_none_waits(void **state)
{
	struct world *w = *state;
	start_to_join(w);
	world_run(w, 2000);
	assert_false(world_status(w, 0).configured);
	assert_int_equal(world_applied(w, 0), 0);
	expect_logged(false, false);
}

/* Data without Raft state, may bootstrap: refused, the message names the path and both ways out. */
static void test_row_data_none_is_refused(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	lose(w, "wal");
	expect_refusal(w, "there is no Raft state");
	expect_refusal(w, w->nodes[0].dir);
	expect_refusal(w, "put the Raft state back");
	expect_refusal(w, "--join");
	/* Untrusted counts as holding something too: it is never opened to look. */
	lose(w, "fsm.mark");
	expect_refusal(w, "there is no Raft state");
	assert_true(p.applied > 0);
}

/* The same, to join: set aside, nothing of it is served, and it is nobody whom the cluster knows. */
static void test_row_data_none_is_set_aside(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	lose(w, "wal");
	start_to_join(w);
	expect_logged(false, true);
	assert_true(snap_exists(in_dir(w, "fsm.stale")));
	assert_false(world_has_topic(w, 0, "a0"));
	assert_int_equal(world_applied(w, 0), 0);
	assert_true(incarnation_of(w) != p.incarnation);
}

/* Snapshots and no log: term and vote are lost, refused whoever starts it. */
static void test_row_snapshots_without_log_are_refused(void **state)
{
	struct world *w = *state;
	(void)make_past(w, true);
	lose(w, "wal");
	expect_refusal(w, "term and vote are lost");
	w->nodes[0].options.bootstrap = false;
	w->nodes[0].options.join = join_there;
	w->nodes[0].options.join_count = 1;
	expect_refusal(w, "term and vote are lost");
}

/* Ahead of log and snapshots, may bootstrap: a rebuild would drop what came since. */
static void test_row_ahead_is_refused(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	take_back(w, &p, "wal");
	take_back(w, &p, "snapshots");
	expect_refusal(w, "older backup");
}

/* The same, to join: the snapshot over it, as another incarnation. */
static void test_row_ahead_is_restored_to_join(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	take_back(w, &p, "wal");
	take_back(w, &p, "snapshots");
	start_to_join(w);
	expect_logged(true, false);
	assert_true(incarnation_of(w) != p.incarnation);
	snap_expect_topics(w, 0, "a", 20);
	assert_false(world_has_topic(w, 0, "d0"));
	world_run(w, 3000);
	assert_false(node_is_leader(w->nodes[0].node));
}

/* The same without a snapshot: set aside. */
static void test_row_ahead_is_set_aside_to_join(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	take_back(w, &p, "wal");
	start_to_join(w);
	expect_logged(false, true);
	assert_true(snap_exists(in_dir(w, "fsm.stale")));
	assert_true(incarnation_of(w) != p.incarnation);
	world_run(w, 3000);
	assert_false(node_is_leader(w->nodes[0].node));
}

/* Trusted and no older than the snapshot: kept, and nothing is applied again. */
static void test_row_trusted_is_kept(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	world_start(w, 0);
	assert_int_equal(world_applied(w, 0), p.applied);
	expect_logged(false, false);
	expect_everything(w, &p);
}

/* Killed instead of stopped: the mark is dirty, and of this boot: trusted as well. */
static void test_row_trusted_after_a_kill_is_kept(void **state)
{
	struct world *w = *state;
	struct past p = make_past(w, true);
	world_start_leader(w);
	world_create(w, 0, "e");
	p.applied = world_applied(w, 0);
	p.digest = world_digest(w, 0);
	char mark[200];
	FILE *f = fopen(in_dir(w, "fsm.mark"), "r");
	assert_non_null(f);
	assert_non_null(fgets(mark, sizeof(mark), f));
	fclose(f);
	assert_non_null(strstr(mark, "dirty"));
	world_stop(w, 0);
	f = fopen(in_dir(w, "fsm.mark"), "w"); /* as a kill leaves it: the file is the same one */
	assert_non_null(f);
	assert_true(fputs(mark, f) >= 0);
	assert_int_equal(fclose(f), 0);
	world_log_clear();
	world_start(w, 0);
	assert_int_equal(world_applied(w, 0), p.applied);
	expect_logged(false, false);
	expect_everything(w, &p);
}

/* Trusted and older than the newest snapshot: that over it, then the log behind it. */
static void test_row_trusted_but_older_is_restored(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	take_back(w, &p, "fsm.mdb");
	take_back(w, &p, "fsm.mark");
	world_start(w, 0);
	expect_logged(true, false);
	assert_true(world_applied(w, 0) > p.early_applied);
	expect_everything(w, &p);
}

/* Not trusted, with a snapshot: never opened, the snapshot over it. */
static void test_row_untrusted_is_restored(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	lose(w, "fsm.mark");
	assert_int_equal(truncate(in_dir(w, "fsm.mdb"), 5000), 0); /* whoever opened it would meet the end of it */
	world_start(w, 0);
	expect_logged(true, false);
	expect_everything(w, &p);
}

/* Absent, with a snapshot: the same. */
static void test_row_absent_is_restored(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	lose(w, "fsm.mdb");
	world_start(w, 0);
	expect_logged(true, false);
	expect_everything(w, &p);
}

/* Not trusted, no snapshot, the whole log: set aside, made anew of the log. */
static void test_row_untrusted_is_set_aside(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	lose(w, "fsm.mark");
	world_start(w, 0);
	expect_logged(false, true);
	assert_true(snap_exists(in_dir(w, "fsm.stale")));
	assert_int_equal(world_applied(w, 0), 0);
	expect_everything(w, &p);
}

/* fsm.stale is one slot: the next file that is set aside takes its place. */
static void test_row_stale_is_one_slot(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	lose(w, "fsm.mark");
	world_start(w, 0);
	expect_everything(w, &p);
	world_stop(w, 0);
	const off_t first = snap_size(in_dir(w, "fsm.stale"));
	assert_int_equal(truncate(in_dir(w, "fsm.stale"), 1), 0);
	lose(w, "fsm.mark");
	world_start(w, 0);
	assert_true(snap_size(in_dir(w, "fsm.stale")) > 1 && first > 1);
	assert_int_equal(snap_count(in_dir(w, ""), "fsm.stale"), 1);
}

/* Absent, no snapshot, the whole log: plain replay. */
static void test_row_absent_is_replayed(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, false);
	lose(w, "fsm.mdb");
	lose(w, "fsm.mark");
	world_start(w, 0);
	expect_logged(false, false);
	assert_false(snap_exists(in_dir(w, "fsm.stale")));
	expect_everything(w, &p);
}

/* Nothing reaches the log's beginning: refused, naming the gap. Untrusted, absent, and trusted but too old. */
static void test_row_gap_is_refused(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	char words[100];
	lose_snapshots(w);
	lose(w, "fsm.mark");
	expect_refusal(w, "entries 1 to ");
	lose(w, "fsm.mdb");
	expect_refusal(w, "entries 1 to ");
	take_back(w, &p, "fsm.mdb");
	take_back(w, &p, "fsm.mark");
	snprintf(words, sizeof(words), "entries %" PRIu64 " to ", p.early_applied + 1);
	expect_refusal(w, words);
}

/* Snapshots gone where fsm.mdb leaves no gap: no reason to refuse; one is made at once. */
static void test_row_trusted_without_snapshots_is_kept(void **state)
{
	struct world *w = *state;
	const struct past p = make_past(w, true);
	lose_snapshots(w);
	world_start(w, 0);
	assert_int_equal(world_applied(w, 0), p.applied);
	expect_logged(false, false);
	expect_everything(w, &p);
	world_until(w, snap_count(in_dir(w, "snapshots"), "") == 1);
}

#define ROW(name)                                                                                                      \
	{ #name " --sync log", test_row_##name, setup_log, world_teardown, NULL },                                     \
	{                                                                                                              \
#name " --sync fsm", test_row_##name, setup_fsm, world_teardown, NULL                                  \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(nothing_none_begins),
		ROW(nothing_none_waits),
		ROW(data_none_is_refused),
		ROW(data_none_is_set_aside),
		ROW(snapshots_without_log_are_refused),
		ROW(ahead_is_refused),
		ROW(ahead_is_restored_to_join),
		ROW(ahead_is_set_aside_to_join),
		ROW(trusted_is_kept),
		ROW(trusted_after_a_kill_is_kept),
		ROW(trusted_but_older_is_restored),
		ROW(untrusted_is_restored),
		ROW(absent_is_restored),
		ROW(untrusted_is_set_aside),
		ROW(stale_is_one_slot),
		ROW(absent_is_replayed),
		ROW(gap_is_refused),
		ROW(trusted_without_snapshots_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
