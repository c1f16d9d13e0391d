/* F02: term and vote are one write, a torn one leaves the value before or the new one, and damage never loses a vote
 * without being noticed.
 */
#include "wal_harness.h"

#include "base/rand.h"

#define SLOT_BYTES 512u
#define COPY_BYTES 64u
#define FILE_BYTES 8192u

static struct model m;

static struct wal *open_fresh(const struct wal_options *o)
{
	m = (struct model){ 0 };
	struct wal_recovered rec;
	struct wal *w = must_open(o, &rec);
	wal_recovered_fini(&rec);
	return w;
}

static struct file load_slots(const struct wal_options *o)
{
	struct file f = load_file(o->dir, "hardstate");
	assert_int_equal(f.len, FILE_BYTES);
	return f;
}

static void store_slots(const struct wal_options *o, const struct file *f)
{
	store_file(o->dir, "hardstate", f->bytes, f->len);
}

/* Where the two files differ first: the slot that the write between them went to. */
static size_t slot_written(const struct file *before, const struct file *after)
{
	for (size_t i = 0; i < FILE_BYTES; i++) {
		if (before->bytes[i] != after->bytes[i])
			return i / WAL_SLOT_STRIDE * WAL_SLOT_STRIDE;
	}
	fail_msg("nothing was written");
	return 0;
}

static void must_have(const struct wal_options *o, raft_term term, node_id vote)
{
	struct wal_recovered rec;
	struct wal *w = must_open(o, &rec);
	assert_int_equal(rec.term, term);
	assert_int_equal(rec.vote, vote);
	wal_recovered_fini(&rec);
	wal_close(w);
}

static void must_refuse(const struct wal_options *o, const char *why)
{
	const uint64_t before = hash_dir(o->dir);
	struct wal_recovered rec;
	struct wal *w = NULL;
	struct err e = { 0 };
	assert_int_equal(wal_open(o, &w, &rec, &e), ERR_CORRUPT);
	assert_null(w);
	assert_non_null(strstr(e.msg, "hardstate"));
	if (!strstr(e.msg, why))
		print_error("not about %s: %s\n", why, e.msg);
	assert_non_null(strstr(e.msg, why));
	assert_non_null(strstr(e.msg, WAL_REMEDY));
	assert_true(hash_dir(o->dir) == before);
}

/* What was put is there after a restart, every time, over many restarts. */
static void test_hardstate_survives(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	struct wal *w = open_fresh(&o);
	for (raft_term term = 1; term < 30; term++) {
		must_put(w, &m, term, 0);
		if (term % 3 == 0)
			must_put(w, &m, term, term * 1000);
		if (term % 4 == 0)
			w = reopen(w, &o, &m);
	}
	must_put(w, &m, UINT64_MAX, UINT64_MAX);
	w = reopen(w, &o, &m);
	wal_close(w);
	remove_dir(dir);
}

/* Writes go to the slots in turn, 512 bytes each, and never touch the other. */
static void test_hardstate_writes_in_turn(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	struct wal *w = open_fresh(&o);
	size_t last = 1;
	for (raft_term term = 1; term < 6; term++) {
		struct file before = load_slots(&o);
		must_put(w, &m, term, 5);
		struct file after = load_slots(&o);
		const size_t slot = slot_written(&before, &after);
		assert_true(slot != last);
		last = slot;
		for (size_t i = 0; i < FILE_BYTES; i++) {
			if (i < slot || i >= slot + SLOT_BYTES)
				assert_int_equal(before.bytes[i], after.bytes[i]);
		}
		mem_free(before.bytes);
		mem_free(after.bytes);
	}
	wal_close(w);
	remove_dir(dir);
}

/* F02: whatever part of the write reached the disk, from the front or from the back: the old pair or the new one. */
static void test_hardstate_torn_write(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 512);
	struct wal *w = open_fresh(&o);
	must_put(w, &m, 6, 60);
	must_put(w, &m, 7, 70);
	struct file before = load_slots(&o);
	must_put(w, &m, 8, 80);
	struct file after = load_slots(&o);
	wal_close(w);
	const size_t slot = slot_written(&before, &after);
	unsigned kept_old = 0;
	for (size_t cut = 0; cut <= SLOT_BYTES; cut++) {
		for (int back = 0; back < 2; back++) {
			struct file torn = { mem_dup(back ? after.bytes : before.bytes, FILE_BYTES), FILE_BYTES };
			memcpy(torn.bytes + slot, (back ? before.bytes : after.bytes) + slot, cut);
			store_slots(&o, &torn);
			mem_free(torn.bytes);
			struct wal_recovered rec;
			w = must_open(&o, &rec);
			assert_true((rec.term == 7 && rec.vote == 70) || (rec.term == 8 && rec.vote == 80));
			kept_old += rec.term == 7;
			const raft_term term = rec.term;
			wal_recovered_fini(&rec);
			wal_close(w);
			must_have(&o, term, term * 10); /* and it stays what it was said to be */
		}
	}
	assert_true(kept_old >= 2 && kept_old < SLOT_BYTES);
	mem_free(before.bytes);
	mem_free(after.bytes);
	remove_dir(dir);
}

/* Flipped bits, and any seven of the eight copies lost, in the newest slot or both: the vote is still there. */
static void test_hardstate_damage_keeps_the_vote(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 512);
	struct wal *w = open_fresh(&o);
	must_put(w, &m, 6, 60);
	must_put(w, &m, 7, 70);
	must_append(w, &m, 1, 3, 7, 20);
	must_sync(w);
	wal_close(w);
	const struct file good = load_slots(&o);
	struct rand r;
	rand_seed(&r, 3);
	for (size_t slot = 0; slot < 2; slot++) {
		for (size_t i = 0; i < SLOT_BYTES; i++) {
			struct file bad = { mem_dup(good.bytes, FILE_BYTES), FILE_BYTES };
			bad.bytes[slot * WAL_SLOT_STRIDE + i] ^= (uint8_t)(1u << rand_below(&r, 8));
			store_slots(&o, &bad);
			mem_free(bad.bytes);
			must_have(&o, 7, 70);
		}
	}
	for (size_t survivor = 0; survivor < SLOT_BYTES / COPY_BYTES; survivor++) {
		struct file bad = { mem_dup(good.bytes, FILE_BYTES), FILE_BYTES };
		for (size_t i = 0; i < SLOT_BYTES; i++) {
			if (i / COPY_BYTES != survivor) {
				bad.bytes[i] = (uint8_t)rand_u64(&r);
				bad.bytes[WAL_SLOT_STRIDE + i] = (uint8_t)rand_u64(&r);
			}
		}
		store_slots(&o, &bad);
		mem_free(bad.bytes);
		must_have(&o, 7, 70);
	}
	mem_free(good.bytes);
	remove_dir(dir);
}

/* A damaged slot is whole again after a start: damage that comes one slot at a time never adds up. */
static void test_hardstate_mends_a_slot(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 512);
	struct wal *w = open_fresh(&o);
	must_put(w, &m, 7, 70);
	wal_close(w);
	for (size_t round = 0; round < 6; round++) {
		struct file f = load_slots(&o);
		for (size_t i = 0; i < SLOT_BYTES - COPY_BYTES; i++)
			f.bytes[round % 2 * WAL_SLOT_STRIDE + i] ^= 0xff;
		store_slots(&o, &f);
		mem_free(f.bytes);
		must_have(&o, 7, 70);
		f = load_slots(&o);
		for (size_t slot = 0; slot < 2; slot++) {
			const uint8_t *p = f.bytes + slot * WAL_SLOT_STRIDE;
			for (size_t c = 1; c < SLOT_BYTES / COPY_BYTES; c++)
				assert_memory_equal(p, p + c * COPY_BYTES, COPY_BYTES);
		}
		mem_free(f.bytes);
	}
	remove_dir(dir);
}

/* A slot without any good copy may have held the newest vote: no start, whichever it was; nor with both, nor without
 * the file, nor with part of it, nor with the slots exchanged. */
static void test_hardstate_refuses_a_lost_slot(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 512);
	struct wal *w = open_fresh(&o);
	must_put(w, &m, 6, 60);
	must_put(w, &m, 7, 70);
	must_append(w, &m, 1, 3, 7, 20);
	must_sync(w);
	wal_close(w);
	const struct file good = load_slots(&o);
	for (int fill = 0; fill < 2; fill++) {
		for (size_t slot = 0; slot < 2; slot++) {
			struct file bad = { mem_dup(good.bytes, FILE_BYTES), FILE_BYTES };
			memset(bad.bytes + slot * WAL_SLOT_STRIDE, fill ? 0xff : 0, SLOT_BYTES);
			store_slots(&o, &bad);
			must_refuse(&o, slot ? "slot 1 at offset 4096" : "slot 0 at offset 0");
			memset(bad.bytes, fill ? 0xff : 0, FILE_BYTES);
			store_slots(&o, &bad);
			must_refuse(&o, "both slots");
			mem_free(bad.bytes);
		}
	}
	static const size_t cuts[] = { 0, 1, 40, 64, 512, 4096, 4096 + 40 };
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		store_slots(&o, &(struct file){ good.bytes, cuts[i] });
		must_refuse(&o, cuts[i] < 64 ? "both slots" : "slot 1");
	}
	struct file swapped = { mem_zalloc(FILE_BYTES), FILE_BYTES };
	memcpy(swapped.bytes, good.bytes + WAL_SLOT_STRIDE, SLOT_BYTES);
	memcpy(swapped.bytes + WAL_SLOT_STRIDE, good.bytes, SLOT_BYTES);
	store_slots(&o, &swapped);
	must_refuse(&o, "both slots");
	mem_free(swapped.bytes);

	char path[256];
	snprintf(path, sizeof(path), "%s/hardstate", o.dir);
	assert_int_equal(unlink(path), 0);
	must_refuse(&o, "missing beside a log");
	store_slots(&o, &good);
	must_have(&o, 7, 70);
	mem_free(good.bytes);
	remove_dir(dir);
}

/* An older state of the file is good in itself; the log knows better: by the term of an entry, or by the count of
 * writes when the term is the same and only the vote is newer. */
static void test_hardstate_older_than_the_log(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 4096);
	struct wal *w = open_fresh(&o);
	must_put(w, &m, 7, 0);
	must_append(w, &m, 1, 1, 7, 20);
	struct file before_vote = load_slots(&o);
	must_put(w, &m, 7, 70);
	struct file before_term = load_slots(&o);
	must_append(w, &m, 2, 1, 7, 20);
	must_sync(w);
	struct file log = load_file(o.dir, "0000000000000001.seg");

	store_slots(&o, &before_vote);
	must_refuse(&o, "a vote is lost");
	store_slots(&o, &before_term);
	must_put(w, &m, 8, 0); /* through the open handle */
	must_append(w, &m, 3, 1, 8, 20);
	must_sync(w);
	wal_close(w);
	store_slots(&o, &before_term);
	must_refuse(&o, "is too old");

	/* With the log of its own time it is as good as ever. */
	store_file(o.dir, "0000000000000001.seg", log.bytes, log.len);
	must_have(&o, 7, 70);
	mem_free(before_vote.bytes);
	mem_free(before_term.bytes);
	mem_free(log.bytes);
	remove_dir(dir);
}

/* A log was there as long as any part of it is: a directory that lost only its slots must not pass for an empty one. */
static void test_log_without_hardstate_is_there(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	assert_false(wal_is_there(o.dir));
	wal_close(open_fresh(&o));
	assert_true(wal_is_there(o.dir));
	char path[256];
	snprintf(path, sizeof(path), "%s/hardstate", o.dir);
	assert_int_equal(unlink(path), 0);
	assert_true(wal_is_there(o.dir));
	snprintf(path, sizeof(path), "%s/0000000000000001.seg", o.dir);
	assert_int_equal(unlink(path), 0);
	assert_false(wal_is_there(o.dir));
	remove_dir(dir);
}

/* Slots nobody put anything into stand beside no log only after a start that was cut short; otherwise the log is lost.
 */
static void test_hardstate_without_a_log(void **state)
{
	(void)state;
	const char *dir = make_dir();
	const struct wal_options o = options_for(dir, 1024);
	struct wal *w = open_fresh(&o);
	wal_close(w);
	char path[256];
	snprintf(path, sizeof(path), "%s/0000000000000001.seg", o.dir);
	assert_int_equal(unlink(path), 0);
	struct wal_recovered rec;
	w = must_open(&o, &rec);
	assert_true(rec.fresh);
	wal_recovered_fini(&rec);
	must_put(w, &m, 1, 0);
	wal_close(w);
	assert_int_equal(unlink(path), 0);
	const uint64_t before = hash_dir(o.dir);
	struct err e = { 0 };
	assert_int_equal(wal_open(&o, &w, &rec, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "the log is lost"));
	assert_non_null(strstr(e.msg, WAL_REMEDY));
	assert_true(hash_dir(o.dir) == before);
	remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hardstate_survives),
		cmocka_unit_test(test_hardstate_writes_in_turn),
		cmocka_unit_test(test_hardstate_torn_write),
		cmocka_unit_test(test_hardstate_damage_keeps_the_vote),
		cmocka_unit_test(test_hardstate_mends_a_slot),
		cmocka_unit_test(test_hardstate_refuses_a_lost_slot),
		cmocka_unit_test(test_hardstate_older_than_the_log),
		cmocka_unit_test(test_log_without_hardstate_is_there),
		cmocka_unit_test(test_hardstate_without_a_log),
	};
	log_set_sink(no_lines, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
