/* Readers beside the apply thread: what they see is whole, never older than what was announced, and another file can be
 * put in place under them. */
#include "fsm_harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"

#define ID1 "1111111111111111"

/* A turn sees what was published before its first read, and later in the turn what was published meanwhile. */
static void test_reader_follows_the_published_index(void **state)
{
	struct rig *r = *state;
	struct store_txn *txn;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "a", ID1, 3), 0);
	assert_int_equal(fsm_read(&r->reader, &txn, NULL), 0);
	assert_int_equal(fsm_reader_index(&r->reader), 1);
	rig_noop(r);
	assert_int_equal(fsm_reader_index(&r->reader), 1);
	assert_int_equal(fsm_read(&r->reader, &txn, NULL), 0);
	assert_int_equal(fsm_reader_index(&r->reader), 2);
	fsm_read_end(&r->reader);
	fsm_read_end(&r->reader);
	assert_int_equal(do_create(r, "b", ID1, 3), 0);
	assert_int_equal(fsm_read(&r->reader, &txn, NULL), 0);
	assert_int_equal(fsm_reader_index(&r->reader), 3);
	assert_int_equal(fsm_get_topic(txn, S("b"), &t), 0);
}

/* Only a turn in progress counts as an old read. */
static void test_oldest_read_counts_turns_in_progress(void **state)
{
	struct rig *r = *state;
	struct store_txn *txn;
	const uint64_t now = clock_mono_ms();
	assert_int_equal(fsm_oldest_read_ms(r->f, now + 1000), 0);
	assert_int_equal(fsm_read(&r->reader, &txn, NULL), 0);
	assert_in_range(fsm_oldest_read_ms(r->f, now + 1000), 900, 1000);
	fsm_read_end(&r->reader);
	assert_int_equal(fsm_oldest_read_ms(r->f, now + 1000), 0);
}

/* A reader that is never done with its turn holds a replacement up, and no reader is left behind by the attempt. */
static void test_replace_waits_for_turns(void **state)
{
	struct rig *r = *state;
	struct store_txn *txn;
	struct fsm_reader idle;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", r->dir, STORE_RESTORE_FILE);
	assert_int_equal(do_create(r, "a", ID1, 3), 0);
	fsm_reader_init(&idle, r->f);
	assert_int_equal(fsm_read(&idle, &txn, NULL), 0);
	fsm_read_end(&idle);
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(store_copy(fsm_store(r->f), fd, NULL), 0);
	close(fd);
	(void)rig_read(r);
	assert_int_equal(fsm_replace(r->f, path, &r->err), ERR_BUSY);
	assert_int_equal(fsm_read(&idle, &txn, NULL), 0);
	fsm_read_end(&idle);
	fsm_read_end(&r->reader);
	assert_int_equal(fsm_replace(r->f, path, &r->err), 0);
	assert_int_equal(fsm_read(&idle, &txn, NULL), 0);
	fsm_reader_fini(&idle);
	fsm_reader_fini(&idle);
}

struct race {
	struct rig *r;
	_Atomic bool stop;
	_Atomic uint64_t turns;
};

/* In every state there is: "pair" has partitions 0 and 1 with the same owner, and that owner's counts say so. */
static void check_pair(struct store_txn *txn)
{
	struct fsm_topic t;
	struct fsm_owner a, b;
	struct fsm_member_extra x;
	if (fsm_get_topic(txn, S("pair"), &t) != 0)
		abort();
	fsm_topic_owner(&t, 0, &a);
	fsm_topic_owner(&t, 1, &b);
	if (!str_eq(a.owner, b.owner) || a.version != b.version)
		abort();
	if (fsm_get_member_extra(txn, a.owner, &x) != 0 || x.counts.owned != 2)
		abort();
}

static void *read_turns(void *arg)
{
	struct race *race = arg;
	struct fsm_reader reader;
	struct store_txn *txn;
	const struct fsm_members *m;
	raft_index last = 0;
	uint64_t generation = 0;
	fsm_reader_init(&reader, race->r->f);
	while (!atomic_load(&race->stop)) {
		const raft_index announced = fsm_applied_index(race->r->f);
		const uint64_t before = fsm_generation(race->r->f);
		if (fsm_read(&reader, &txn, NULL) != 0) {
			sched_yield();
			continue;
		}
		/* another file may be older; within one the index never goes back */
		if (before == fsm_generation(race->r->f) && before == generation &&
		    (fsm_reader_index(&reader) < announced || fsm_reader_index(&reader) < last))
			abort();
		generation = before;
		last = fsm_reader_index(&reader);
		check_pair(txn);
		if (fsm_reader_members(&reader, &m, NULL) != 0 || m->count != 2)
			abort();
		const struct fsm_member *n1 = fsm_members_find(m, S("n1")), *n2 = fsm_members_find(m, S("n2"));
		/* they die and live together, in one entry */
		if (!n1 || !n2 || n1->alive != n2->alive)
			abort();
		fsm_read_end(&reader);
		atomic_fetch_add(&race->turns, 1);
	}
	fsm_reader_fini(&reader);
	return NULL;
}

static void *follow_changes(void *arg)
{
	struct race *race = arg;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	while (fsm_changes_seek(race->r->f, fsm_changes_floor(race->r->f), &pos) != 0)
		;
	while (!atomic_load(&race->stop)) {
		const int rc = fsm_changes_next(race->r->f, &pos, &c);
		if (rc == ERR_NOTFOUND)
			fsm_changes_end(race->r->f, &pos);
		else if (rc == ERR_TIMEOUT)
			sched_yield();
		else if (c.key.len == 0)
			abort();
	}
	fsm_changes_leave(&pos);
	return NULL;
}

static void *copy_and_sync(void *arg)
{
	struct race *race = arg;
	struct store *s = fsm_store(race->r->f);
	while (!atomic_load(&race->stop)) {
		const int fd = open("/dev/null", O_WRONLY);
		if (fd < 0 || store_copy(s, fd, NULL) != 0 || store_sync(s, NULL) != 0)
			abort();
		close(fd);
		(void)fsm_oldest_read_ms(race->r->f, clock_mono_ms());
	}
	return NULL;
}

static void place_pair(struct rig *r, const char *owner)
{
	struct entry_builder b;
	entry_builder_init(&b);
	for (int p = 0; p < 2; p++)
		entry_builder_add(&b, CMD_PARTITION_ASSIGN, &(struct assignment){ S("pair"), p, str_of(owner), NONE });
	assert_int_equal(rig_run(r, &b).refusal, 0);
}

static void join_both(struct rig *r, bool alive)
{
	struct entry_builder b;
	entry_builder_init(&b);
	for (int i = 0; i < 2; i++) {
		struct member m = member_of(i ? "n1" : "n2", 1);
		m.status = alive ? S("alive") : S("dead");
		entry_builder_add(&b, CMD_MEMBER_JOIN, &m);
	}
	assert_int_equal(rig_run(r, &b).refusal, 0);
}

/* Three readers, a follower of changes, copies and syncs beside the apply thread, which puts images in place at times.
 */
static void test_readers_beside_apply(void **state)
{
	struct rig *r = *state;
	struct race race = { .r = r };
	pthread_t threads[5];
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", r->dir, STORE_RESTORE_FILE);
	assert_int_equal(do_create(r, "pair", ID1, 2), 0);
	join_both(r, true);
	place_pair(r, "n1");
	for (int i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
		                                i < 3    ? read_turns
		                                : i == 3 ? follow_changes
		                                         : copy_and_sync,
		                                &race),
		                 0);
	for (int i = 0; i < 1500 || atomic_load(&race.turns) < 1500; i++) {
		if (i % 7 == 0)
			join_both(r, i % 2);
		place_pair(r, i % 2 ? "n1" : "n2");
		if (i % 300 == 299) {
			fsm_read_end(&r->reader);
			const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
			assert_int_equal(store_copy(fsm_store(r->f), fd, NULL), 0);
			close(fd);
			place_pair(r, "n1");
			if (fsm_replace(r->f, path, &r->err) != 0)
				fail_msg("%s", r->err.msg);
			r->index = fsm_applied_index(r->f);
		}
	}
	atomic_store(&race.stop, true);
	for (int i = 0; i < 5; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(fsm_generation(r->f) > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_reader_follows_the_published_index),
		CASE(test_oldest_read_counts_turns_in_progress),
		CASE(test_replace_waits_for_turns),
		CASE(test_readers_beside_apply),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
