/* Readers and the preparer beside the log thread: what a reader gets is the log of one moment, byte for byte, while it
 * is appended to, overridden, compacted and reset. Meant for TSan, true everywhere.
 */
#include "wal_harness.h"

#include <pthread.h>
#include <sched.h>

#include "base/bytes.h"
#include "base/rand.h"

#define READERS 2
#define STEPS 12000
#define SEGMENT_BYTES 1024

static struct wal *w;
static _Atomic bool done;
static _Atomic uint64_t entries_read;

static uint32_t len_of(raft_index index, raft_term term)
{
	return 8 + (uint32_t)((index * 7 + term * 13) % 90);
}

/* The first 8 bytes say the term of the entry before, so that a reader can tell one moment of the log from a mixture.
 */
static struct entry make_linked(raft_index index, raft_term term, raft_term prev_term)
{
	struct entry entry = make_entry(index, term, ENTRY_COMMAND, len_of(index, term));
	put_le64(entry.slab->data, prev_term);
	return entry;
}

static bool is_linked(const struct entry *entry)
{
	if (entry->len != len_of(entry->index, entry->term))
		return false;
	for (uint32_t i = 8; i < entry->len; i++) {
		if (entry->data[i] != payload_byte(entry->index, entry->term, i))
			return false;
	}
	return true;
}

/* cmocka's asserts are for its own thread: this one says what was wrong and ends the program. */
static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "reader: %s\n", what);
		abort();
	}
}

static void read_once(struct rand *r)
{
	struct entry out[40];
	struct err e = { 0 };
	size_t n = 0;
	const raft_index first = wal_first_index(w);
	const raft_index last = wal_last_index(w);
	if (first == 0 || last < first) /* empty, or reset between the two looks */
		return;
	const raft_index lo = first + rand_below(r, last - first + 2);
	const raft_index hi = lo + rand_below(r, 60);
	const int rc = wal_read(w, lo, hi, rand_below(r, 3000), out, 1 + rand_below(r, 40), &n, &e);
	if (rc == ERR_NOTFOUND) /* compacted away between the look and the read */
		return;
	check(rc == 0, e.msg);
	for (size_t i = 0; i < n; i++) {
		check(out[i].index == lo + i, "a gap");
		check(is_linked(&out[i]), "other bytes than were written");
		check(i == 0 || get_le64(out[i].data) == out[i - 1].term, "a mixture of two logs");
	}
	for (size_t i = 0; i < n; i++)
		entry_unref(&out[i]);
	atomic_fetch_add(&entries_read, n);
}

static void *reader_main(void *arg)
{
	struct rand r;
	rand_seed(&r, (uint64_t)(uintptr_t)arg);
	while (!atomic_load(&done))
		read_once(&r);
	return NULL;
}

static void *preparer_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&done)) {
		struct err e = { 0 };
		if (wal_wants_segment(w))
			check(wal_prepare_segment(w, &e) == 0, e.msg);
		else
			sched_yield();
	}
	return NULL;
}

static raft_term terms[STEPS * 9];

static void append_linked(raft_index first, size_t n, raft_term term)
{
	struct entry entries[16];
	struct err e = { 0 };
	for (size_t i = 0; i < n; i++) {
		entries[i] = make_linked(first + i, term, terms[first + i - 1]);
		terms[first + i] = term;
	}
	assert_int_equal(wal_append(w, entries, n, &e), 0);
	for (size_t i = 0; i < n; i++)
		entry_unref(&entries[i]);
}

static void log_thread(void)
{
	struct rand r;
	struct err e = { 0 };
	raft_term term = 1;
	raft_index last = 0;
	rand_seed(&r, 11);
	must_put(w, NULL, term, 0);
	for (int step = 0; step < STEPS; step++) {
		const raft_index first_index = wal_first_index(w);
		if (rand_below(&r, 10) == 0 && first_index && last > first_index + 12) {
			term++;
			must_put(w, NULL, term, 0);
			last -= rand_below(&r, 10);
		}
		const size_t n = 1 + rand_below(&r, 8);
		append_linked(last + 1, n, term);
		last += n;
		if (step % 3 == 0)
			must_sync(w);
		/* Rarely at first, so that the readers' index has to grow. */
		if (step > STEPS / 2 && rand_below(&r, 20) == 0 && last > 40)
			assert_int_equal(wal_compact(w, last - 40, &e), 0);
		if (step > STEPS / 2 && rand_below(&r, 200) == 0) {
			last += 3;
			terms[last] = term;
			assert_int_equal(wal_reset(w, last, term, &e), 0);
		}
	}
}

static void test_read_beside_the_log_thread(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	const struct wal_options o = options_for(dir, SEGMENT_BYTES);
	struct wal_recovered rec;
	w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	pthread_t threads[READERS + 1];
	for (size_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader_main, (void *)(uintptr_t)(i + 1)),
		                 0); /* NOLINT */
	assert_int_equal(pthread_create(&threads[READERS], NULL, preparer_main, NULL), 0);
	log_thread();
	atomic_store(&done, true);
	for (size_t i = 0; i <= READERS; i++)
		pthread_join(threads[i], NULL);
	assert_true(atomic_load(&entries_read) > STEPS);
	wal_close(w);
	slab_drain_pool();
	remove_dir(dir);
}

/* ---- the index alone, changed as fast as it can be ---- */

static struct wal_index shared;
static _Atomic uint64_t looks;

/* The whole index is of one generation: every point carries it, and so do the bounds. */
static void *looker_main(void *arg)
{
	(void)arg;
	static _Thread_local struct wal_look look;
	raft_index lo = 1;
	while (!atomic_load(&done)) {
		wal_index_look(&shared, lo, &look);
		const uint64_t generation = look.last % 1000;
		check(look.first == 1 && look.last / 1000 == 100, "bounds of two moments");
		check(look.count > 0 && look.spans[0].index <= lo, "a known index is not found");
		for (size_t i = 0; i < look.count; i++) {
			check(look.spans[i].at.segment == generation, "points of two moments");
			check(look.spans[i].at.offset == look.spans[i].index, "a torn point");
			check(i == 0 || look.spans[i].index == look.spans[i - 1].index + 1, "points out of order");
		}
		check(look.covered >= lo && look.covered <= look.last, "covered is off");
		lo = lo % 100 + 1;
		atomic_fetch_add(&looks, 1);
	}
	return NULL;
}

static void test_read_index_is_one_moment(void **state)
{
	(void)state;
	atomic_store(&done, false);
	wal_index_init(&shared);
	pthread_t threads[READERS];
	for (uint64_t round = 0; round < 8000 || atomic_load(&looks) < 1000; round++) {
		const uint64_t generation = round % 1000;
		/* Now and then more points than ever before: the array is replaced under the lookers. */
		const raft_index count = 100 + (round % 2000 == 1999 ? round / 20 : round % 7);
		wal_index_begin(&shared);
		wal_index_cut(&shared, 0);
		for (raft_index i = 1; i <= count; i++)
			wal_index_note(&shared, i, (struct wal_pos){ generation, (uint32_t)i }, true);
		wal_index_bound(&shared, 1, 100000 + generation);
		wal_index_end(&shared);
		for (size_t i = 0; round == 0 && i < READERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, looker_main, NULL), 0);
		if (round % 16 == 0)
			sched_yield();
	}
	atomic_store(&done, true);
	for (size_t i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	wal_index_fini(&shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_beside_the_log_thread),
		cmocka_unit_test(test_read_index_is_one_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
