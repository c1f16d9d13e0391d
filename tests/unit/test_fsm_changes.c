/* The list of changes: order, bounds, being overwritten under a reader, and readers beside a writer. */
#include "fsm_harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fsm/fsm_internal.h"

/* A list of its own, without a store behind it. */
struct list {
	struct fsm f;
	raft_index index;
};

static void list_make(struct list *l, size_t bytes)
{
	memset(l, 0, sizeof(*l));
	l->f.changes = changes_new(bytes, 0);
}

/* One index with `n` changes whose keys are made of the index, `len` bytes each. */
static void list_add(struct list *l, unsigned n, size_t len)
{
	struct buf notes = { 0 };
	char key[FSM_CHANGE_KEY_MAX];
	l->index++;
	for (unsigned i = 0; i < n; i++) {
		memset(key, 'a' + (int)(l->index % 26), sizeof(key));
		changes_encode(&notes, &(struct change_note){ .index = l->index,
		                                              .domain = FSM_DOMAIN_TOPICS,
		                                              .op = i % 2 ? FSM_OP_DELETE : FSM_OP_PUT,
		                                              .key = { key, len },
		                                              .record = { key, len / 2 },
		                                              .members = { key, len / 3 } });
	}
	changes_publish(l->f.changes, &notes);
	buf_fini(&notes);
}

static void check_key(const struct fsm_change *c)
{
	const struct str parts[] = { c->key, c->record, c->members };
	for (size_t k = 0; k < ARRAY_LEN(parts); k++)
		for (size_t i = 0; i < parts[k].len; i++)
			if (parts[k].p[i] != 'a' + (char)(c->index % 26))
				fail_msg("index %" PRIu64 ": %s", c->index, c->key.p);
	if (c->key.p[c->key.len] != '\0' || c->record.len != c->key.len / 2 || c->members.len != c->key.len / 3)
		fail_msg("index %" PRIu64 ": no end", c->index);
}

/* Every change once, in order, the last of an index without `more`; a reader may begin behind any index still kept. */
static void test_list_gives_each_change_once(void **state)
{
	(void)state;
	struct list l;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	list_make(&l, 0);
	assert_int_equal(fsm_changes_seek(&l.f, 0, &pos), 0);
	assert_int_equal(fsm_changes_next(&l.f, &pos, &c), ERR_TIMEOUT);
	for (int i = 0; i < 50; i++)
		list_add(&l, 3, (size_t)i);
	for (raft_index since = 0; since <= 51; since++) {
		assert_int_equal(fsm_changes_seek(&l.f, since, &pos), 0);
		for (raft_index index = since + 1; index <= 50; index++) {
			for (int k = 0; k < 3; k++) {
				assert_int_equal(fsm_changes_next(&l.f, &pos, &c), 0);
				assert_int_equal(c.index, index);
				assert_int_equal(c.more, k < 2);
				assert_int_equal(c.op, k % 2 ? FSM_OP_DELETE : FSM_OP_PUT);
				assert_int_equal(c.key.len, index - 1);
				check_key(&c);
			}
		}
		assert_int_equal(fsm_changes_next(&l.f, &pos, &c), ERR_TIMEOUT);
	}
	fsm_changes_end(&l.f, &pos);
	assert_int_equal(fsm_changes_next(&l.f, &pos, &c), ERR_TIMEOUT);
	list_add(&l, 1, 5);
	assert_int_equal(fsm_changes_next(&l.f, &pos, &c), 0);
	assert_int_equal(c.index, 51);
	fsm_changes_leave(&pos);
	changes_free(l.f.changes);
}

/* However long their keys, the newest ten thousand are there; a reader that is too slow is told so, and where to go on.
 */
static void test_list_keeps_the_newest(void **state)
{
	(void)state;
	struct list l;
	struct fsm_change_pos slow = { 0 }, pos = { 0 };
	struct fsm_change c;
	list_make(&l, 1);
	assert_int_equal(fsm_changes_seek(&l.f, 0, &slow), 0);
	for (int i = 0; i < 40000; i++)
		list_add(&l, 1, FSM_CHANGE_KEY_MAX);
	const raft_index floor = fsm_changes_floor(&l.f);
	assert_in_range(floor, 20000, 30000);
	assert_int_equal(fsm_changes_next(&l.f, &slow, &c), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(&l.f, 0, &pos), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(&l.f, floor - 1, &pos), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(&l.f, floor, &pos), 0);
	raft_index next = floor;
	while (fsm_changes_next(&l.f, &pos, &c) == 0) {
		assert_int_equal(c.index, ++next);
		check_key(&c);
	}
	assert_int_equal(next, 40000);
	fsm_changes_leave(&slow);
	fsm_changes_leave(&pos);
	changes_free(l.f.changes);
}

/* Records as large as they may be: the bound on memory counts more than the number of entries, and holds. */
static void test_list_is_bounded_in_bytes(void **state)
{
	(void)state;
	struct list l;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	char *record = calloc(1, 1 << 20);
	list_make(&l, 0);
	for (int i = 0; i < 1000; i++) {
		struct buf notes = { 0 };
		changes_encode(&notes, &(struct change_note){ .index = ++l.index,
		                                              .domain = FSM_DOMAIN_SCHEMAS,
		                                              .op = FSM_OP_PUT,
		                                              .key = STR_LIT("k"),
		                                              .record = { record, 1 << 20 } });
		changes_publish(l.f.changes, &notes);
		buf_fini(&notes);
	}
	raft_index next = fsm_changes_floor(&l.f);
	assert_in_range(next, 1000 - 256, 1000 - 250);
	assert_int_equal(fsm_changes_seek(&l.f, next, &pos), 0);
	while (fsm_changes_next(&l.f, &pos, &c) == 0) {
		assert_int_equal(c.index, ++next);
		assert_int_equal(c.record.len, 1 << 20);
	}
	assert_int_equal(next, 1000);
	fsm_changes_leave(&pos);
	changes_free(l.f.changes);
	free(record);
}

/* An index of which some changes went is not handed out by halves. */
static void test_list_never_splits_an_index(void **state)
{
	(void)state;
	struct list l;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	list_make(&l, 1);
	for (int i = 0; i < 12000; i++)
		list_add(&l, 30, 60);
	const raft_index floor = fsm_changes_floor(&l.f);
	assert_true(floor > 0);
	assert_int_equal(fsm_changes_seek(&l.f, floor, &pos), 0);
	for (raft_index index = floor + 1; index <= 12000; index++)
		for (int k = 0; k < 30; k++) {
			assert_int_equal(fsm_changes_next(&l.f, &pos, &c), 0);
			assert_int_equal(c.index, index);
		}
	fsm_changes_leave(&pos);
	changes_free(l.f.changes);
}

struct follower {
	struct list *l;
	_Atomic bool *stop;
	_Atomic int *ready;
	uint64_t seen, lost;
};

static void *follow(void *arg)
{
	struct follower *f = arg;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	raft_index last = 0;
	assert_int_equal(fsm_changes_seek(&f->l->f, 0, &pos), 0);
	atomic_fetch_add(f->ready, 1);
	for (;;) {
		const bool stopping = atomic_load(f->stop);
		const int rc = fsm_changes_next(&f->l->f, &pos, &c);
		if (rc == 0) {
			check_key(&c);
			/* nothing is passed over in silence: the next index, or told that it was lost */
			if (c.index != last && c.index != last + 1 && last != 0)
				fail_msg("%" PRIu64 " after %" PRIu64, c.index, last);
			last = c.index;
			f->seen++;
		} else if (rc == ERR_NOTFOUND) {
			f->lost++;
			last = 0;
			fsm_changes_end(&f->l->f, &pos);
		} else if (stopping) {
			fsm_changes_leave(&pos);
			return NULL;
		}
	}
}

/* Readers beside a writer that lets go of all it may: whole changes in order, or "lost" - never a mixture. */
static void test_list_is_followed_while_it_is_written(void **state)
{
	(void)state;
	enum { READERS = 2 };
	struct list l;
	_Atomic bool stop = false;
	_Atomic int ready = 0;
	struct follower f[READERS];
	pthread_t threads[READERS];
	list_make(&l, 1);
	for (int i = 0; i < READERS; i++) {
		f[i] = (struct follower){ &l, &stop, &ready, 0, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, follow, &f[i]), 0);
	}
	while (atomic_load(&ready) < READERS)
		sched_yield();
	for (int i = 0; i < 300000; i++)
		list_add(&l, 1, (size_t)(i * 7) % FSM_CHANGE_KEY_MAX);
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < READERS; i++)
		assert_true(f[i].seen > 0 || f[i].lost > 0);
	changes_free(l.f.changes);
}

/* After a restart of the list nobody goes on at an old place. */
static void test_restart_voids_old_places(void **state)
{
	(void)state;
	struct list l;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	list_make(&l, 0);
	list_add(&l, 2, 5);
	assert_int_equal(fsm_changes_seek(&l.f, 0, &pos), 0);
	changes_restart(l.f.changes, 100);
	l.index = 100;
	list_add(&l, 1, 5);
	assert_int_equal(fsm_changes_next(&l.f, &pos, &c), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(&l.f, 99, &pos), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(&l.f, 100, &pos), 0);
	assert_int_equal(fsm_changes_next(&l.f, &pos, &c), 0);
	assert_int_equal(c.index, 101);
	fsm_changes_leave(&pos);
	changes_free(l.f.changes);
}

/* Of a batch that refuses an entry only the others' changes are told, and versions move with them. */
static void test_refused_entries_leave_no_change(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_create(r, "orders", "1111111111111111", 3), 0);
	const raft_index at = fsm_domain_version(r->f, FSM_DOMAIN_TOPICS);
	assert_int_equal(do_create(r, "orders", "1111111111111111", 3), FSM_TOPIC_EXISTS);
	assert_int_equal(do_place(r, "orders", "", 0, "n1"), FSM_TOPIC_CHANGED);
	assert_string_equal(changes_since(r, at), "");
	assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_TOPICS), at);
	assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_ASSIGNMENTS), 0);
	assert_int_equal(do_place(r, "orders", "1111111111111111", 0, "n1"), 0);
	assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_ASSIGNMENTS), r->index);
	assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_TOPICS), at);
	assert_string_equal(changes_since(r, at), "assignments:orders/0+");
	assert_true(fsm_hash(S("a")) != fsm_hash(S("b")));
	assert_int_equal(fsm_hash(NONE), fsm_hash(S("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_gives_each_change_once),
		cmocka_unit_test(test_list_keeps_the_newest),
		cmocka_unit_test(test_list_is_bounded_in_bytes),
		cmocka_unit_test(test_list_never_splits_an_index),
		cmocka_unit_test(test_list_is_followed_while_it_is_written),
		cmocka_unit_test(test_restart_voids_old_places),
		CASE(test_refused_entries_leave_no_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
