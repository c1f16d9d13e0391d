/* Starts: what a directory holds decides, and a start that is refused has changed nothing. */
#include "tests/unit/node_world.h"

#include <fcntl.h>
#include <sys/wait.h>

static node_id incarnation_of(const struct world *w)
{
	struct net_hello h;
	node_self_hello(w->nodes[0].node, &h);
	return h.incarnation;
}

static const char *in_dir(const struct world *w, const char *name)
{
	static char path[4][256];
	static size_t next;
	char *out = path[next++ % 4];
	snprintf(out, sizeof(path[0]), "%s/%s", w->nodes[0].dir, name);
	return out;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static size_t read_file(const char *path, char *out, size_t cap)
{
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	const size_t n = fread(out, 1, cap - 1, f);
	out[n] = '\0';
	fclose(f);
	return n;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static uint32_t mix(uint32_t crc, const void *p, size_t len)
{
	const uint8_t *b = p;
	for (size_t i = 0; i < len; i++)
		crc = (crc ^ b[i]) * 16777619u;
	return crc;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* A fingerprint of every file below a directory: names and bytes. */
static uint32_t fingerprint(const char *path, uint32_t crc)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return crc;
	crc = mix(crc, path, strlen(path));
	if (!S_ISDIR(st.st_mode)) {
		char bytes[4096];
		FILE *f = fopen(path, "r");
		assert_non_null(f);
		size_t n;
		while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
			crc = mix(crc, bytes, n);
		fclose(f);
		return crc;
	}
	struct dirent **entries;
	const int count = scandir(path, &entries, NULL, by_name);
	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		if (name[0] != '.') {
			char child[600];
			snprintf(child, sizeof(child), "%s/%s", path, name);
			crc = fingerprint(child, crc);
		}
		free(entries[i]);
	}
	free(entries);
	return crc;
}

/* ---- restarts ---- */

/* A clean restart keeps identity, cluster, topics and index, and applies nothing twice. */
static void test_restart_keeps_everything(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	const struct node_status before = world_status(w, 0);
	const raft_index applied = world_applied(w, 0);
	world_stop(w, 0);
	world_log_clear();
	world_start(w, 0);
	assert_true(world_applied(w, 0) >= applied);
	assert_true(world_has_topic(w, 0, "a"));
	assert_false(world_logged("fsm.stale"));
	world_until(w, node_is_leader(w->nodes[0].node));
	const struct node_status after = world_status(w, 0);
	assert_true(after.cluster_id == before.cluster_id && after.term > before.term);
	assert_int_equal(after.conf.servers[0].id, before.conf.servers[0].id);
	world_propose(w, 0, "a", 1);
	assert_int_equal(world_wait(w, 0).code, FSM_TOPIC_EXISTS);
}

/* Killed without a word, right after an answer: everything answered is there, and fsm.mdb is still believed. */
static void test_kill_loses_nothing(void **state)
{
	struct world *w = *state;
	for (int round = 0; round < 5; round++) {
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			world_start_leader(w);
			char name[32];
			for (int i = 0; i < 20; i++) {
				snprintf(name, sizeof(name), "t%d-%d", round, i);
				world_create(w, 0, name);
			}
			_exit(0); /* no close, no sync, no mark */
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	world_start(w, 0);
	assert_false(world_logged("fsm.stale"));
	world_until(w, node_is_leader(w->nodes[0].node));
	world_create(w, 0, "last");
	char name[32];
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "t%d-%d", round, i);
			assert_true(world_has_topic(w, 0, name));
		}
	}
}

/* Power lost between the first start and the first entry: an empty log that was made is no log that was taken away. */
static void test_start_that_wrote_nothing_yet(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	world_stop(w, 0);
	assert_true(exists(in_dir(w, "fsm.mdb")));
	(void)unlink(in_dir(w, "fsm.mark"));
	world_start_leader(w);
	world_create(w, 0, "a");
}

/* Killed at its first start, when nothing but its name is there, or its name and an empty log: it starts. */
static void test_first_start_cut_short(void **state)
{
	struct world *w = *state;
	world_start(w, 0);
	const node_id first = incarnation_of(w);
	world_stop(w, 0);
	world_remove_tree(in_dir(w, "wal"));
	(void)unlink(in_dir(w, "fsm.mdb"));
	(void)unlink(in_dir(w, "fsm.mark"));
	world_start_leader(w);
	assert_true(incarnation_of(w) == first);
	world_create(w, 0, "a");
}

/* Nothing can be made in the directory: no log may be left that nobody owns. */
static void test_failed_first_start_leaves_no_orphan_log(void **state)
{
	struct world *w = *state;
	(void)mkdir(w->nodes[0].dir, 0700);
	assert_int_equal(mkdir(in_dir(w, "node.tmp"), 0700), 0);
	struct err e = { 0 };
	assert_int_not_equal(world_try_start(w, 0, &e), 0);
	assert_false(exists(in_dir(w, "wal")));
	assert_int_equal(rmdir(in_dir(w, "node.tmp")), 0);
	world_start_leader(w);
}

/* A file nobody vouches for is set aside unopened and rebuilt from the log, to the same bytes. */
static void test_untrusted_file_is_rebuilt(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	for (int i = 0; i < 50; i++) {
		char name[32];
		snprintf(name, sizeof(name), "t%d", i);
		world_create(w, 0, name);
	}
	world_until(w, world_status(w, 0).registered);
	world_stop(w, 0);
	assert_int_equal(unlink(in_dir(w, "fsm.mark")), 0);
	world_start_leader(w);
	assert_true(exists(in_dir(w, "fsm.stale")));
	world_create(w, 0, "more");
	assert_true(world_has_topic(w, 0, "t0") && world_has_topic(w, 0, "t49"));
	struct store_txn *t = NULL;
	struct err e = { 0 };
	assert_int_equal(store_begin_read(fsm_store(node_fsm(w->nodes[0].node)), &t, &e), 0);
	assert_int_equal(fsm_check(t, &e), 0);
	store_abort(t);
}

/* ---- starts that are refused ---- */

static void expect_refusal(struct world *w, int code, const char *words)
{
	struct err e = { 0 };
	const uint32_t before = fingerprint(w->nodes[0].dir, 0);
	const int rc = world_try_start(w, 0, &e);
	if (rc != code || !strstr(e.msg, words))
		fail_msg("rc %d, \"%s\"; expected %d, \"%s\"", rc, e.msg, code, words);
	assert_int_equal(fingerprint(w->nodes[0].dir, 0), before);
}

/* A directory in use: the second one is told which process holds it (F28). */
static void test_locked_directory_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	struct node *second = NULL;
	struct err e = { 0 };
	assert_int_equal(node_open(&w->nodes[0].options, &second, &e), ERR_BUSY);
	char pid[32];
	snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	assert_non_null(strstr(e.msg, pid));
	world_create(w, 0, "a"); /* the first goes on */
}

/* Another's directory: refused naming both, nothing written (F28). */
static void test_other_identity_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_stop(w, 0);
	w->nodes[0].options.id = "n9";
	expect_refusal(w, ERR_IDENTITY, "\"n1\"");
	expect_refusal(w, ERR_IDENTITY, "\"n9\"");
	w->nodes[0].options.id = "n1";
	world_start_leader(w);
}

/* A file `node` that is damaged, of a newer format, or missing beside a log: identity is never guessed. */
static void test_damaged_identity_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_stop(w, 0);
	char line[256];
	const size_t len = read_file(in_dir(w, "node"), line, sizeof(line));
	assert_true(len > 20);
	for (size_t i = 0; i < len; i++) {
		char bad[256];
		memcpy(bad, line, len + 1);
		bad[i] = bad[i] == 'x' ? 'y' : 'x';
		write_file(in_dir(w, "node"), bad);
		struct err e = { 0 };
		const int rc = world_try_start(w, 0, &e);
		assert_true(rc == ERR_CORRUPT);
	}
	for (size_t cut = 0; cut < len; cut++) {
		char bad[256];
		memcpy(bad, line, len + 1);
		bad[cut] = '\0';
		write_file(in_dir(w, "node"), bad);
		struct err e = { 0 };
		assert_int_equal(world_try_start(w, 0, &e), ERR_CORRUPT);
	}
	write_file(in_dir(w, "node"), "veena-node 2 id=n1 something=else\n");
	expect_refusal(w, ERR_VERSION, "newer");
	assert_int_equal(unlink(in_dir(w, "node")), 0);
	expect_refusal(w, ERR_CORRUPT, "no file `node`");
	write_file(in_dir(w, "node"), line);
	world_start_leader(w);
}

/* Data without Raft state: a node that may begin a cluster refuses, twice, and touches nothing; put back, it starts. */
static void test_data_without_log_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	world_stop(w, 0);
	assert_int_equal(rename(in_dir(w, "wal"), in_dir(w, "away")), 0);
	struct err e = { 0 };
	assert_int_equal(world_try_start(w, 0, &e), ERR_CORRUPT);
	const uint32_t before = fingerprint(in_dir(w, "fsm.mdb"), 0);
	assert_int_equal(world_try_start(w, 0, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "--join"));
	assert_int_equal(fingerprint(in_dir(w, "fsm.mdb"), 0), before);
	assert_false(exists(in_dir(w, "fsm.stale")));
	world_remove_tree(in_dir(w, "wal"));
	assert_int_equal(rename(in_dir(w, "away"), in_dir(w, "wal")), 0);
	world_start_leader(w);
	assert_true(world_has_topic(w, 0, "a"));
}

/* The same with --join: the data is set aside, nothing of it is served, and the node waits to be told. */
static void test_data_without_log_is_set_aside_to_join(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	const node_id before = incarnation_of(w);
	world_stop(w, 0);
	world_remove_tree(in_dir(w, "wal"));
	static const char *const join[] = { "127.0.0.1:7999" };
	w->nodes[0].options.bootstrap = false;
	w->nodes[0].options.join = join;
	w->nodes[0].options.join_count = 1;
	world_start(w, 0);
	assert_true(incarnation_of(w) != before); /* it no longer knows what it voted */
	world_run(w, 3000);
	assert_true(exists(in_dir(w, "fsm.stale")));
	assert_false(world_status(w, 0).configured);
	assert_false(world_has_topic(w, 0, "a"));
	assert_false(node_is_caught_up(w->nodes[0].node, NULL, 0));
}

/* A log older than fsm.mdb is a restored backup: a rebuild would drop what came since. */
static void test_older_log_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_create(w, 0, "a");
	world_stop(w, 0);
	char command[600];
	snprintf(command, sizeof(command), "cp -a %s %s", in_dir(w, "wal"), in_dir(w, "backup"));
	assert_int_equal(system(command), 0);
	world_start_leader(w);
	for (int i = 0; i < 10; i++) {
		char name[32];
		snprintf(name, sizeof(name), "b%d", i);
		world_create(w, 0, name);
	}
	const node_id before = incarnation_of(w);
	world_stop(w, 0);
	world_remove_tree(in_dir(w, "wal"));
	assert_int_equal(rename(in_dir(w, "backup"), in_dir(w, "wal")), 0);
	struct err e = { 0 };
	assert_int_equal(world_try_start(w, 0, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "older backup"));
	assert_false(exists(in_dir(w, "fsm.stale")));
	/* To join with it is another matter: but not as the voter it was, whose votes and entries it lacks. */
	static const char *const join[] = { "127.0.0.1:7999" };
	w->nodes[0].options.bootstrap = false;
	w->nodes[0].options.join = join;
	w->nodes[0].options.join_count = 1;
	world_start(w, 0);
	assert_true(incarnation_of(w) != before);
	assert_true(exists(in_dir(w, "fsm.stale")));
	world_run(w, 3000);
	assert_false(node_is_leader(w->nodes[0].node));
}

/* Damage in the log before its tail: refused, no file changed, the message names the place (F20). */
static void test_damaged_log_is_refused(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	for (int i = 0; i < 20; i++) {
		char name[32];
		snprintf(name, sizeof(name), "t%d", i);
		world_create(w, 0, name);
	}
	world_stop(w, 0);
	DIR *d = opendir(in_dir(w, "wal"));
	assert_non_null(d);
	char segment[600] = "";
	const struct dirent *ent;
	while ((ent = readdir(d)) != NULL) { /* the oldest segment: the one with records of the first run */
		char path[600];
		struct stat st;
		snprintf(path, sizeof(path), "%s/%s", in_dir(w, "wal"), ent->d_name);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 65536 &&
		    (segment[0] == '\0' || strcmp(path, segment) < 0))
			snprintf(segment, sizeof(segment), "%s", path);
	}
	closedir(d);
	const int fd = open(segment, O_RDWR);
	assert_true(fd >= 0);
	uint8_t byte;
	assert_int_equal(pread(fd, &byte, 1, 700), 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, 700), 1);
	close(fd);
	expect_refusal(w, ERR_CORRUPT, "");
}

/* Options that make no sense name the setting and the value. */
static void test_bad_options_are_refused(void **state)
{
	struct world *w = *state;
	struct node_options *o = &w->nodes[0].options;
	struct err e = { 0 };
	o->id = "no/slash";
	assert_int_equal(world_try_start(w, 0, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "--id"));
	o->id = "n1";
	o->tags_json = "{\"rack\":5}";
	assert_int_equal(world_try_start(w, 0, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "--tag"));
	o->tags_json = "{\"rack\":\"r1\",\"zone\":\"z\"}";
	o->http_addr = "nowhere";
	assert_int_equal(world_try_start(w, 0, &e), ERR_INVALID);
	o->http_addr = "127.0.0.1:1";
	assert_false(exists(w->nodes[0].dir));
	world_start_leader(w);
}

/* Files an interrupted snapshot or identity write left behind go, the rest stays. */
static void test_leftovers_are_removed(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_stop(w, 0);
	write_file(in_dir(w, "fsm.snapshot-ab12"), "x");
	write_file(in_dir(w, "fsm.restore"), "x");
	write_file(in_dir(w, "node.tmp"), "x");
	write_file(in_dir(w, "fsm.stale"), "keep");
	world_start_leader(w);
	assert_false(exists(in_dir(w, "fsm.snapshot-ab12")));
	assert_false(exists(in_dir(w, "fsm.restore")));
	assert_false(exists(in_dir(w, "node.tmp")));
	assert_true(exists(in_dir(w, "fsm.stale")));
}

/* The directory and what stands in it are their owner's alone. */
static void test_modes_are_private(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	struct stat st;
	assert_int_equal(stat(w->nodes[0].dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	static const char *const files[] = { "LOCK", "node", "fsm.mdb" };
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		assert_int_equal(stat(in_dir(w, files[i]), &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup_one, world_teardown)
		TEST(test_restart_keeps_everything),
		TEST(test_kill_loses_nothing),
		TEST(test_start_that_wrote_nothing_yet),
		TEST(test_first_start_cut_short),
		TEST(test_failed_first_start_leaves_no_orphan_log),
		TEST(test_untrusted_file_is_rebuilt),
		TEST(test_locked_directory_is_refused),
		TEST(test_other_identity_is_refused),
		TEST(test_damaged_identity_is_refused),
		TEST(test_data_without_log_is_refused),
		TEST(test_data_without_log_is_set_aside_to_join),
		TEST(test_older_log_is_refused),
		TEST(test_damaged_log_is_refused),
		TEST(test_bad_options_are_refused),
		TEST(test_leftovers_are_removed),
		TEST(test_modes_are_private),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
