/* The log as its users see it: what goes in comes out, over restarts, segments, overrides, compaction and reset. */
#include "wal_harness.h"

#include "base/rand.h"

/* A directory with nothing in it is reported as fresh once, and gets its files. */
static void test_log_starts_empty(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 4096);
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	assert_true(rec.fresh);
	assert_int_equal(rec.term, 0);
	assert_int_equal(rec.vote, 0);
	assert_int_equal(rec.first_index, 0);
	assert_int_equal(rec.last_index, 0);
	assert_int_equal(rec.tail_count, 0);
	assert_int_equal(rec.confs[0].index, 0);
	assert_int_equal(wal_first_index(w), 0);
	assert_int_equal(wal_last_index(w), 0);
	wal_recovered_fini(&rec);
	wal_recovered_fini(&rec);
	wal_close(w);

	assert_true(has_file(o.dir, "hardstate"));
	assert_true(has_file(o.dir, "0000000000000001.seg"));
	w = must_open(&o, &rec);
	assert_false(rec.fresh);
	assert_int_equal(rec.last_index, 0);
	wal_recovered_fini(&rec);
	wal_close(w);
	wal_close(NULL);
	remove_dir(dir);
}

/* Payloads of every padding, none, and the largest come back equal, with kind and term. */
static void test_log_keeps_entries(void **state)
{
	(void)state;
	static const uint32_t lens[] = { 0, 1, 7, 8, 9, 63, 64, 65, 1000, 65536, 100000, ENTRY_PAYLOAD_MAX };
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 0);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 3, 77);
	for (size_t i = 0; i < ARRAY_LEN(lens); i++)
		assert_int_equal(append(w, &m, i + 1, 1, 3, (uint8_t)(i % 3 + 1), lens[i]), 0);
	must_sync(w);
	check_log(w, &m);
	w = reopen(w, &o, &m);
	must_append(w, &m, m.last + 1, 5, 3, 17);
	must_sync(w);
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* More entries in one call than one pwritev takes, over many segments, some entries larger than a segment. */
static void test_log_rolls_within_a_batch(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 16384);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	must_append(w, &m, 1, 2000, 1, 21);
	must_append(w, &m, 2001, 3, 1, 40000);
	must_append(w, &m, 2004, 600, 1, 0);
	must_sync(w);
	assert_true(count_segments(o.dir) > 14);
	check_log(w, &m);
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* A later record of lower index wins, within a segment, over segments, and over a restart. */
static void test_log_overrides(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 2048);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 9, 0);
	must_append(w, &m, 1, 40, 1, 100);
	must_append(w, &m, 40, 1, 2, 5); /* the last one */
	must_append(w, &m, 10, 3, 3, 9); /* back over segments; the log is shorter now */
	check_log(w, &m);
	must_append(w, &m, 13, 40, 4, 100);
	must_append(w, &m, 1, 2, 9, 1); /* all of it */
	check_log(w, &m);
	must_sync(w);
	w = reopen(w, &o, &m);
	assert_int_equal(wal_last_index(w), 2);
	wal_close(w);
	remove_dir(dir);
}

/* The newest configurations are found wherever they stand, and not those an override removed. */
static void test_log_reports_configurations(void **state)
{
	(void)state;
	const char *dir = make_dir();
	struct wal_options o = options_for(dir, 1024);
	o.tail_bytes_max = 200;
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 2, 0);
	assert_int_equal(append(w, &m, 1, 1, 1, ENTRY_CONFIG, 33), 0);
	must_append(w, &m, 2, 30, 1, 50);
	w = reopen(w, &o, &m);
	assert_int_equal(append(w, &m, 32, 1, 1, ENTRY_CONFIG, 34), 0);
	must_append(w, &m, 33, 30, 1, 50);
	assert_int_equal(append(w, &m, 63, 1, 1, ENTRY_CONFIG, 0), 0);
	w = reopen(w, &o, &m);
	must_append(w, &m, 40, 3, 2, 50); /* 63 is gone, 32 is the newest again */
	w = reopen(w, &o, &m);
	must_append(w, &m, 32, 3, 2, 50);
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* The tail holds as many of the last entries as the limit allows, and never more. */
static void test_log_limits_the_tail(void **state)
{
	(void)state;
	const char *dir = make_dir();
	struct wal_options o = options_for(dir, 4096);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	must_append(w, &m, 1, 300, 1, 136); /* records of 200 bytes */
	wal_close(w);
	static const struct {
		size_t max;
		size_t count;
	} cases[] = { { 199, 0 }, { 200, 1 }, { 2199, 10 }, { 20000, 100 }, { 1000000, 300 }, { 0, 300 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		o.tail_bytes_max = cases[i].max;
		w = must_open(&o, &rec);
		assert_int_equal(rec.tail_count, cases[i].count);
		check_recovered(&rec, &m);
		wal_recovered_fini(&rec);
		wal_close(w);
	}
	remove_dir(dir);
}

/* Reading answers within its limits, says what is gone, and gives nothing beyond the end. */
static void test_log_reads_within_limits(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 65536);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	must_append(w, &m, 1, 1000, 1, 100);
	struct entry out[8];
	struct err e = { 0 };
	size_t n = 7;
	assert_int_equal(wal_read(w, 1001, 1001, 100, out, 8, &n, &e), 0);
	assert_int_equal(n, 0);
	assert_int_equal(wal_read(w, 998, 2000, 100000, out, 8, &n, &e), 0);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		entry_unref(&out[i]);
	assert_int_equal(wal_read(w, 500, 1000, 100000, out, 8, &n, &e), 0);
	assert_int_equal(n, 8);
	for (size_t i = 0; i < n; i++)
		entry_unref(&out[i]);
	assert_int_equal(wal_read(w, 500, 1000, 0, out, 8, &n, &e), 0);
	assert_int_equal(n, 1);
	entry_unref(&out[0]);
	for (size_t bytes = 1; bytes < 1000; bytes += 99)
		check_range(w, &m, 1, 1000, bytes);
	wal_close(w);
	remove_dir(dir);
}

/* Compaction removes whole segments from the front and nothing that holds more; the base keeps its term. */
static void test_log_compacts(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 9, 0);
	for (raft_index i = 1; i <= 100; i++)
		must_append(w, &m, i, 1, 1 + i / 20, 30);
	must_sync(w);
	const unsigned before = count_segments(o.dir);
	struct err e = { 0 };
	assert_int_equal(wal_compact(w, 0, &e), 0);
	assert_int_equal(wal_first_index(w), 1);
	assert_int_equal(count_segments(o.dir), before);
	for (raft_index upto = 1; upto <= 100; upto += 7) {
		assert_int_equal(wal_compact(w, upto, &e), 0);
		const raft_index first = wal_first_index(w);
		assert_true(first <= upto + 1);
		assert_true(first + 10 > upto); /* 10 of them fill a segment */
		if (first > 1) {
			struct entry out[1];
			size_t n;
			assert_int_equal(wal_read(w, first - 1, 100, 100, out, 1, &n, &e), ERR_NOTFOUND);
		}
		w = reopen(w, &o, &m);
		assert_int_equal(wal_first_index(w), first);
	}
	assert_int_equal(wal_compact(w, 1000, &e), 0);
	assert_int_equal(count_segments(o.dir), 1);
	must_append(w, &m, 101, 20, 9, 30);
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* What an override killed may be compacted with the segment it stands in, also when the log then begins in the middle
 * of what was overridden: the first record knows the term before it. */
static void test_log_compacts_what_was_overridden(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 9, 0);
	must_append(w, &m, 1, 4, 2, 30);
	must_append(w, &m, 5, 20, 3, 30); /* over three segments */
	must_append(w, &m, 5, 2, 4, 30);  /* stands in the third */
	struct err e = { 0 };
	assert_int_equal(wal_compact(w, 4, &e), 0);
	assert_int_equal(wal_first_index(w), 5);
	assert_int_equal(count_segments(o.dir), 1);
	w = reopen(w, &o, &m);
	assert_int_equal(wal_first_index(w), 5);
	wal_close(w);
	remove_dir(dir);
}

/* After a reset the log starts behind the snapshot, old segments are gone, and stay void if they come back. */
static void test_log_resets(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 9, 0);
	must_append(w, &m, 1, 30, 2, 30);
	must_sync(w);
	struct file old = load_file(o.dir, "0000000000000001.seg");
	struct err e = { 0 };
	assert_int_equal(wal_reset(w, 500, 7, &e), 0);
	m.base = 500;
	m.base_term = 7;
	m.last = 500;
	assert_int_equal(count_segments(o.dir), 1);
	assert_int_equal(wal_first_index(w), 0);
	assert_int_equal(wal_last_index(w), 500);
	struct entry out[1];
	size_t n;
	assert_int_equal(wal_read(w, 3, 3, 100, out, 1, &n, &e), ERR_NOTFOUND);
	assert_int_equal(wal_read(w, 500, 500, 100, out, 1, &n, &e), ERR_NOTFOUND);
	assert_int_equal(wal_read(w, 501, 501, 100, out, 1, &n, &e), 0);
	assert_int_equal(n, 0);
	w = reopen(w, &o, &m);
	store_file(o.dir, "0000000000000001.seg", old.bytes, old.len);
	w = reopen(w, &o, &m);
	assert_false(has_file(o.dir, "0000000000000001.seg"));
	must_append(w, &m, 501, 30, 8, 30);
	must_sync(w);
	old.bytes[70] ^= 1; /* void is void, damaged or not */
	store_file(o.dir, "0000000000000001.seg", old.bytes, old.len);
	w = reopen(w, &o, &m);
	assert_int_equal(wal_first_index(w), 501);
	wal_close(w);
	mem_free(old.bytes);
	remove_dir(dir);
}

/* Resetting again and again, with and without a prepared segment, with and without entries. */
static void test_log_resets_repeatedly(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 50, 0);
	struct err e = { 0 };
	for (raft_index i = 1; i < 40; i++) {
		if (i % 3 == 0)
			assert_int_equal(wal_prepare_segment(w, &e), 0);
		m.base = m.last = i * 100;
		m.base_term = i;
		assert_int_equal(wal_reset(w, m.base, i, &e), 0);
		if (i % 2)
			must_append(w, &m, m.base + 1, i, i + 1, 40);
		if (i % 5 == 0)
			w = reopen(w, &o, &m);
	}
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* One segment is made ahead, used by the next roll, wanted again after it; what is left over is removed at open. */
static void test_log_prepares_a_segment(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 300000);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	struct err e = { 0 };
	assert_true(wal_wants_segment(w));
	assert_int_equal(wal_prepare_segment(w, &e), 0);
	assert_false(wal_wants_segment(w));
	assert_int_equal(wal_prepare_segment(w, &e), 0);
	struct file spare = load_file(o.dir, "next.tmp");
	assert_int_equal(spare.len, 300000);
	for (size_t i = 0; i < spare.len; i++)
		assert_int_equal(spare.bytes[i], 0);
	mem_free(spare.bytes);

	must_append(w, &m, 1, 5, 1, 100000);
	assert_true(wal_wants_segment(w));
	struct file rolled = load_file(o.dir, "0000000000000002.seg");
	assert_int_equal(rolled.len, 300000);
	mem_free(rolled.bytes);
	assert_int_equal(wal_prepare_segment(w, &e), 0);
	store_file(o.dir, "roll.tmp", (const uint8_t *)"x", 1);
	store_file(o.dir, "hardstate.tmp", (const uint8_t *)"x", 1);
	w = reopen(w, &o, &m);
	assert_false(has_file(o.dir, "next.tmp"));
	assert_false(has_file(o.dir, "roll.tmp"));
	assert_false(has_file(o.dir, "hardstate.tmp"));
	wal_close(w);
	remove_dir(dir);
}

/* F28: a segment of another cluster is refused, one made before the id was known is not. */
static void test_log_knows_its_cluster(void **state)
{
	(void)state;
	const char *dir = make_dir();
	struct wal_options o = options_for(dir, 1024);
	static struct model m;
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	must_append(w, &m, 1, 10, 1, 50); /* segments without an id */
	wal_set_cluster_id(w, 0xabc);
	must_append(w, &m, 11, 20, 1, 50);
	w = reopen(w, &o, &m);
	o.cluster_id = 0xabc;
	w = reopen(w, &o, &m);
	wal_close(w);
	const uint64_t before = hash_dir(o.dir);
	o.cluster_id = 0xdef;
	struct err e = { 0 };
	w = NULL;
	assert_int_equal(wal_open(&o, &w, &rec, &e), ERR_IDENTITY);
	assert_non_null(strstr(e.msg, "0000000000000abc"));
	assert_non_null(strstr(e.msg, "0000000000000def"));
	assert_null(w);
	assert_true(hash_dir(o.dir) == before);
	remove_dir(dir);
}

/* A format of the future is said to be one, and left alone. */
static void test_log_refuses_a_newer_format(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	wal_close(w);
	struct file f = load_file(o.dir, "0000000000000001.seg");
	struct wal_header h;
	assert_true(wal_header_decode(f.bytes, f.len, &h));
	h.version = WAL_VERSION + 1;
	wal_header_encode(&h, f.bytes);
	store_file(o.dir, "0000000000000001.seg", f.bytes, f.len);
	mem_free(f.bytes);
	const uint64_t before = hash_dir(o.dir);
	struct err e = { 0 };
	assert_int_equal(wal_open(&o, &w, &rec, &e), ERR_VERSION);
	assert_non_null(strstr(e.msg, "0000000000000001.seg"));
	assert_true(hash_dir(o.dir) == before);
	remove_dir(dir);
}

/* A read-only handle sees all and changes nothing, not even the directory's existence. */
static void test_log_read_only_changes_nothing(void **state)
{
	(void)state;
	const char *dir = make_dir();
	struct wal_options o = options_for(dir, 1024);
	o.read_only = true;
	struct wal_recovered rec;
	struct wal *w = must_open(&o, &rec);
	assert_true(rec.fresh);
	wal_recovered_fini(&rec);
	wal_close(w);
	assert_false(has_file(dir, "wal"));

	o.read_only = false;
	static struct model m;
	m = (struct model){ 0 };
	w = must_open(&o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &m, 4, 12);
	must_append(w, &m, 1, 50, 4, 50);
	wal_close(w);
	const uint64_t before = hash_dir(o.dir);
	o.read_only = true;
	w = must_open(&o, &rec);
	check_recovered(&rec, &m);
	wal_recovered_fini(&rec);
	check_log(w, &m);
	assert_false(wal_wants_segment(w));
	wal_close(w);
	assert_true(hash_dir(o.dir) == before);
	remove_dir(dir);
}

/* ---- everything in random order, against the model ---- */

static void random_step(struct rand *r, struct wal **w, const struct wal_options *o, struct model *m)
{
	struct err e = { 0 };
	const uint64_t dice = rand_below(r, 100);
	if (dice < 70) {
		const raft_index room = m->last - m->base;
		raft_index first = m->last + 1;
		if (room && rand_below(r, 4) == 0) {
			first -= rand_below(r, room < 20 ? room : 20);
			if (model_term(m, first - 1) == m->term || first <= m->last)
				must_put(*w, m, m->term + 1, rand_below(r, 3));
		}
		const uint8_t kind = rand_below(r, 10) ? ENTRY_COMMAND : ENTRY_CONFIG;
		const size_t n = 1 + rand_below(r, rand_below(r, 10) ? 5 : 60);
		const uint32_t len = (uint32_t)rand_below(r, rand_below(r, 10) ? 60 : 3000);
		assert_int_equal(append(*w, m, first, n, m->term, kind, len), 0);
	} else if (dice < 82) {
		must_sync(*w);
	} else if (dice < 87) {
		assert_int_equal(wal_prepare_segment(*w, &e), 0);
	} else if (dice < 92 && m->last > m->base) {
		/* As Raft does: never above what can no longer be overridden. Overrides reach back 20. */
		const raft_index upto = m->base + rand_below(r, m->last - m->base + 1);
		if (upto + 40 < m->last) {
			assert_int_equal(wal_compact(*w, upto, &e), 0);
			const raft_index first = wal_first_index(*w);
			assert_true(first <= upto + 1);
			m->base_term = model_term(m, first - 1);
			m->base = first - 1;
		}
	} else if (dice < 94) {
		m->base = m->last = m->last + rand_below(r, 5);
		m->base_term = m->term;
		assert_int_equal(wal_reset(*w, m->base, m->term, &e), 0);
	} else if (dice < 97) {
		must_put(*w, m, m->term + rand_below(r, 3) + 1, rand_below(r, 3));
	} else {
		*w = reopen(*w, o, m);
	}
}

/* A thousand and some steps of every kind of call over small segments: the log always equals the model. */
static void test_log_follows_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		const char *dir = make_dir();
		struct wal_options o = options_for(dir, seed % 2 ? 2000 : 20000);
		o.tail_bytes_max = 5000;
		static struct model m;
		m = (struct model){ 0 };
		struct rand r;
		rand_seed(&r, seed);
		struct wal_recovered rec;
		struct wal *w = must_open(&o, &rec);
		wal_recovered_fini(&rec);
		must_put(w, &m, 1, 0);
		for (int i = 0; i < 250 && m.last < MODEL_MAX - 100; i++) {
			random_step(&r, &w, &o, &m);
			if (i % 10 == 0)
				check_log(w, &m);
		}
		w = reopen(w, &o, &m);
		wal_close(w);
		remove_dir(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_starts_empty),
		cmocka_unit_test(test_log_keeps_entries),
		cmocka_unit_test(test_log_rolls_within_a_batch),
		cmocka_unit_test(test_log_overrides),
		cmocka_unit_test(test_log_reports_configurations),
		cmocka_unit_test(test_log_limits_the_tail),
		cmocka_unit_test(test_log_reads_within_limits),
		cmocka_unit_test(test_log_compacts),
		cmocka_unit_test(test_log_compacts_what_was_overridden),
		cmocka_unit_test(test_log_resets),
		cmocka_unit_test(test_log_resets_repeatedly),
		cmocka_unit_test(test_log_prepares_a_segment),
		cmocka_unit_test(test_log_knows_its_cluster),
		cmocka_unit_test(test_log_refuses_a_newer_format),
		cmocka_unit_test(test_log_read_only_changes_nothing),
		cmocka_unit_test(test_log_follows_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
