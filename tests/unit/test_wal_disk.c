/* The log on a disk that loses what was not synced (F18, F19, F21), fails (F22), is full (F27).
 *
 * A workload drawn from a seed runs against a model that knows what was acknowledged. It is cut off, or one call fails,
 * at every single system call in turn; then the directory is opened again, and what it holds must be what was
 * acknowledged plus some of what was asked for afterwards, in order and without a gap.
 */
#include "wal_disk.h"

#define PENDING_MAX 4096
#define REACH 3 /* entries an override goes back at most */

struct pending {
	raft_index index;
	struct model_entry entry;
};

/* What a node remembers of what its log told it. */
struct run {
	struct wal_options o;
	struct wal *w;
	struct rand r;
	struct model acked;                  /* log and hard state as acknowledged */
	struct pending pending[PENDING_MAX]; /* appended since, in order */
	size_t pending_count;
	raft_index last;      /* with what is pending */
	raft_term asked_term; /* hard state asked for and not acknowledged; 0 = none */
	node_id asked_vote;
	bool resetting; /* asked for and not acknowledged */
	raft_index reset_index;
	raft_index compacted; /* highest index compaction was asked for */
	raft_index floor;     /* nothing at or below is overridden: Raft calls it committed */
	int rc;               /* of the call that failed */
	bool rc_final;
};

static struct run run;

/* ---- the workload ---- */

static void take_pending(struct model *m, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct pending *p = &run.pending[i];
		if (p->index <= m->base)
			continue;
		assert_true(p->index <= m->last + 1);
		m->at[p->index] = p->entry;
		m->last = p->index;
	}
}

/* F19: whenever the log says yes, every name that counts is on disk. */
static void acknowledged(void)
{
	assert_true(disk_names_are_durable());
}

static int do_put(raft_term term, node_id vote)
{
	struct err e = { 0 };
	run.asked_term = term;
	run.asked_vote = vote;
	const int rc = wal_put_hardstate(run.w, term, vote, &e);
	if (rc)
		return rc;
	acknowledged();
	run.acked.term = term;
	run.acked.vote = vote;
	run.asked_term = 0;
	return 0;
}

static int append_at(raft_index first, size_t n)
{
	struct entry entries[32];
	assert_true(n <= ARRAY_LEN(entries));
	for (size_t i = 0; i < n; i++) {
		entries[i] = make_entry(first + i, run.acked.term, rand_below(&run.r, 8) ? ENTRY_COMMAND : ENTRY_CONFIG,
		                        (uint32_t)rand_below(&run.r, 130));
		assert_true(run.pending_count < PENDING_MAX);
		run.pending[run.pending_count++] =
		    (struct pending){ first + i, { entries[i].term, entries[i].len, entries[i].kind } };
		run.last = first + i;
	}
	struct err e = { 0 };
	const int rc = wal_append(run.w, entries, n, &e);
	for (size_t i = 0; i < n; i++)
		entry_unref(&entries[i]);
	return rc;
}

static int do_append(void)
{
	raft_index first = run.last + 1;
	if (rand_below(&run.r, 3) == 0 && run.last > run.floor) {
		const raft_index room = run.last - run.floor;
		first -= rand_below(&run.r, (room < REACH ? room : REACH) + 1);
		if (first <= run.last) {
			const int rc = do_put(run.acked.term + 1, 0);
			if (rc)
				return rc;
		}
	}
	return append_at(first, 1 + rand_below(&run.r, 6));
}

static int do_sync(void)
{
	struct err e = { 0 };
	const int rc = wal_sync(run.w, &e);
	if (rc)
		return rc;
	acknowledged();
	take_pending(&run.acked, run.pending_count);
	run.pending_count = 0;
	if (run.acked.last > run.floor + 2 * REACH)
		run.floor = run.acked.last - 2 * REACH;
	return 0;
}

static int do_compact(void)
{
	struct err e = { 0 };
	const raft_index upto = run.floor;
	if (upto > run.compacted)
		run.compacted = upto;
	return wal_compact(run.w, upto, &e);
}

static int do_reset(void)
{
	struct err e = { 0 };
	run.resetting = true;
	run.reset_index = run.last + 5;
	const int rc = wal_reset(run.w, run.reset_index, run.acked.term, &e);
	if (rc)
		return rc;
	acknowledged();
	run.resetting = false;
	run.pending_count = 0;
	run.acked.base = run.acked.last = run.last = run.floor = run.reset_index;
	run.acked.base_term = run.acked.term;
	return 0;
}

/* ---- what an opened log holds ---- */

static bool holds(const struct model *m, const struct wal_recovered *rec, const struct entry *all, size_t count)
{
	if (rec->last_index != m->last || rec->base_index < m->base)
		return false;
	if (rec->base_index > m->base && rec->base_index > run.compacted)
		return false;
	if (rec->base_index && rec->base_term != model_term(m, rec->base_index))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct model_entry *want = &m->at[all[i].index];
		if (all[i].term != want->term || all[i].len != want->len || all[i].kind != want->kind ||
		    !is_payload(&all[i]))
			return false;
	}
	return true;
}

/* Which state is it? Makes that the acknowledged one: the node builds on what it found. */
static bool adopt(const struct wal_recovered *rec, const struct entry *all, size_t count)
{
	static struct model m;
	m = run.acked;
	bool found = holds(&m, rec, all, count);
	for (size_t i = 0; !found && i < run.pending_count; i++) {
		m = run.acked;
		take_pending(&m, i + 1);
		found = holds(&m, rec, all, count);
	}
	if (!found && run.resetting) {
		m.base = m.last = run.reset_index;
		m.base_term = run.acked.term;
		found = holds(&m, rec, all, count);
	}
	if (found) {
		m.term = run.acked.term;
		m.vote = run.acked.vote;
		run.acked = m;
		run.pending_count = 0;
		run.resetting = false;
		run.last = m.last;
		if (run.floor > m.last)
			run.floor = m.last;
		if (run.floor < rec->base_index)
			run.floor = rec->base_index;
	}
	return found;
}

static int try_open(struct err *e)
{
	struct wal_recovered rec;
	const int rc = wal_open(&run.o, &run.w, &rec, e);
	if (rc) {
		run.w = NULL;
		return rc;
	}
	acknowledged();
	const bool old = rec.term == run.acked.term && rec.vote == run.acked.vote;
	const bool asked = run.asked_term && rec.term == run.asked_term && rec.vote == run.asked_vote;
	assert_true(old || asked);
	run.acked.term = rec.term;
	run.acked.vote = rec.vote;
	run.asked_term = 0;

	size_t count = (size_t)(rec.last_index - rec.base_index);
	struct entry *all = mem_zalloc((count + 1) * sizeof(*all));
	for (size_t got = 0; got < count;) {
		size_t n = 0;
		assert_int_equal(
		    wal_read(run.w, rec.base_index + 1 + got, rec.last_index, 1 << 20, all + got, count - got, &n, e),
		    0);
		assert_true(n > 0);
		got += n;
	}
	const bool known = adopt(&rec, all, count);
	if (!known)
		print_error("opened %" PRIu64 "..%" PRIu64 ", acknowledged up to %" PRIu64 ", %zu pending\n",
		            rec.base_index, rec.last_index, run.acked.last, run.pending_count);
	assert_true(known);
	for (size_t i = 0; i < count; i++)
		entry_unref(&all[i]);
	mem_free(all);
	wal_recovered_fini(&rec);
	return 0;
}

static void must_reopen(void)
{
	wal_close(run.w);
	run.w = NULL;
	struct err e = { 0 };
	const int rc = try_open(&e);
	if (rc)
		print_error("%s: %s\n", err_name(rc), e.msg);
	assert_int_equal(rc, 0);
}

/* The process is killed and started again on the same machine: what it reads may be in memory only, and from here on
 * the node takes all of it for durable. */
static int do_restart(void)
{
	wal_close(run.w);
	run.w = NULL;
	struct err e = { 0 };
	return try_open(&e);
}

static int do_prepare(void)
{
	struct err e = { 0 };
	const int rc = wal_prepare_segment(run.w, &e);
	run.rc_final = rc != ERR_FULL && !(rc && disk.faulty_call == CALL_CREATE);
	return rc;
}

static int one_step(void)
{
	run.rc_final = true;
	const uint64_t dice = rand_below(&run.r, 100);
	if (dice < 45)
		return do_append();
	if (dice < 70)
		return do_sync();
	if (dice < 78)
		return do_put(run.acked.term + 1, rand_below(&run.r, 4));
	if (dice < 86)
		return do_prepare();
	if (dice < 93)
		return do_compact();
	if (dice < 95)
		return do_reset();
	return do_restart();
}

static void start_run(const char *dir, uint64_t seed)
{
	memset(&run, 0, sizeof(run));
	run.o = options_for(dir, 512 + seed % 3 * 700);
	rand_seed(&run.r, seed);
	remove_dir(dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	disk_start(run.o.dir);
}

/* Runs until the steps are done or a call fails; the answer is that call's. */
static int go(int steps)
{
	if (!run.w) {
		struct err e = { 0 };
		run.rc = try_open(&e);
	}
	for (int i = 0; !run.rc && i < steps; i++) {
		run.rc = one_step();
		if (run.rc && !run.rc_final)
			run.rc = 0; /* the spare segment is not needed */
	}
	return run.rc;
}

/* ---- power cuts ---- */

/* F18, F19, F21: the power goes at every call in turn; nothing acknowledged is lost, nothing appears from nowhere. */
static void cut_everywhere(uint64_t seed, int steps, unsigned stride)
{
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	start_run(dir, seed);
	assert_int_equal(go(steps), 0);
	const unsigned calls = disk.calls;
	wal_close(run.w);
	disk_stop();
	assert_true(calls > (unsigned)steps / 2);

	for (unsigned at = 1 + (unsigned)seed % stride; at <= calls; at += stride) {
		for (unsigned mode = 0; mode < 4; mode++) {
			start_run(dir, seed);
			disk_plan(at, FAULT_CRASH);
			(void)go(steps);
			assert_true(disk.crashed);
			wal_close(run.w);
			run.w = NULL;
			run.rc = 0;
			disk_cut(seed * 1000 + at, mode);
			must_reopen();
			/* It goes on, and a second cut, with everything unsynced lost, finds what was taken for
			 * durable. */
			assert_int_equal(go(6), 0);
			wal_close(run.w);
			run.w = NULL;
			disk_cut(at, 0);
			must_reopen();
			wal_close(run.w);
			disk_stop();
		}
	}
	remove_dir(dir);
}

static void test_disk_power_cuts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++)
		cut_everywhere(seed, 60, 3);
}

/* F18: the same through a reset alone, every call. */
static void test_disk_power_cuts_in_reset(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	unsigned before = 0;
	unsigned after = 0;
	for (unsigned at = 1; at < 40; at++) {
		for (unsigned mode = 0; mode < 4; mode++) {
			start_run(dir, 77);
			assert_int_equal(go(0), 0);
			assert_int_equal(do_put(1, 0), 0);
			for (int i = 0; i < 8; i++)
				assert_int_equal(do_append(), 0);
			assert_int_equal(do_sync(), 0);
			assert_true(count_segments(run.o.dir) > 2);
			const raft_index last = run.last;
			disk_plan(at, FAULT_CRASH);
			const int rc = do_reset();
			wal_close(run.w);
			run.w = NULL;
			disk_cut(at, mode);
			must_reopen();
			before += run.last == last;
			after += run.last == last + 5;
			assert_true(rc || run.last == last + 5);
			wal_close(run.w);
			disk_stop();
		}
	}
	assert_true(before > 0 && after > 0);
	remove_dir(dir);
}

/* F02: the power goes at each write of term and vote, whatever part of it stays: never a third value, and what was
 * answered stays. The disk tears each write at a place drawn from the seed. */
static void test_disk_power_cuts_in_hardstate(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	for (unsigned at = 1; at <= 4; at++) {
		for (unsigned seed = 0; seed < 150; seed++) {
			start_run(dir, 5);
			assert_int_equal(go(0), 0);
			disk_plan(at, FAULT_CRASH);
			for (raft_term term = 1; term <= 4; term++) {
				if (do_put(term, term + 10))
					break;
			}
			assert_int_equal(run.acked.term, at - 1);
			wal_close(run.w);
			run.w = NULL;
			disk_cut(seed, 2);
			must_reopen();
			assert_true(run.acked.term == at - 1 || run.acked.term == at);
			wal_close(run.w);
			disk_stop();
		}
	}
	remove_dir(dir);
}

/* An override that is not on disk yet must not make room for compaction: the segments it would free hold what is left
 * when the power goes. */
static void test_disk_compaction_waits_for_an_override(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	for (unsigned mode = 0; mode < 4; mode++) {
		start_run(dir, 3);
		assert_int_equal(go(0), 0);
		assert_int_equal(do_put(1, 0), 0);
		assert_int_equal(append_at(1, 24), 0);
		assert_int_equal(do_sync(), 0);
		assert_true(count_segments(run.o.dir) > 2);
		run.floor = 4;
		assert_int_equal(do_put(2, 0), 0);
		assert_int_equal(append_at(5, 2), 0);
		assert_int_equal(do_compact(), 0);
		wal_close(run.w);
		run.w = NULL;
		disk_cut(mode, mode);
		must_reopen();
		assert_true(wal_first_index(run.w) <= 5);
		wal_close(run.w);
		disk_stop();
	}
	remove_dir(dir);
}

/* ---- failures ---- */

static void must_be_dead(void)
{
	struct err e = { 0 };
	struct entry entry = make_entry(run.last + 1, UINT64_MAX, ENTRY_NOOP, 0);
	struct entry out[1];
	size_t n;
	const unsigned calls = disk.calls;
	assert_int_equal(wal_put_hardstate(run.w, UINT64_MAX, 0, &e), ERR_IO);
	assert_non_null(strstr(e.msg, "failed before"));
	assert_int_equal(wal_append(run.w, &entry, 1, &e), ERR_IO);
	assert_int_equal(wal_sync(run.w, &e), ERR_IO);
	assert_int_equal(wal_reset(run.w, 100000, UINT64_MAX, &e), ERR_IO);
	assert_int_equal(wal_compact(run.w, 100000, &e), ERR_IO);
	assert_int_equal(wal_prepare_segment(run.w, &e), ERR_IO);
	assert_int_equal(wal_read(run.w, 1, 1, 100, out, 1, &n, &e), ERR_IO);
	assert_false(wal_wants_segment(run.w));
	assert_int_equal(disk.calls, calls); /* it does not even try */
}

static bool fault_fits(enum disk_fault fault, enum disk_call call)
{
	return fault == FAULT_EIO || call == CALL_WRITE || (fault == FAULT_ENOSPC && call != CALL_UNLINK);
}

/* F22: one call fails, each in its turn and in each way. Nothing is acknowledged after it; a restart finds a log
 * without a gap that holds what was acknowledged, and a power cut after that still does. */
static void fail_everywhere(uint64_t seed, int steps, unsigned stride, unsigned *final)
{
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	start_run(dir, seed);
	assert_int_equal(go(steps), 0);
	const unsigned calls = disk.calls;
	wal_close(run.w);
	disk_stop();

	for (unsigned at = 1 + (unsigned)seed % stride; at <= calls; at += stride) {
		for (int fault = FAULT_EIO; fault < FAULT_COUNT; fault++) {
			start_run(dir, seed);
			disk_plan(at, (enum disk_fault)fault);
			int rc = go(steps);
			assert_int_equal(disk.faults, 1);
			if (!fault_fits((enum disk_fault)fault, disk.faulty_call)) {
				/* A fault that this call cannot have was given as EIO: told once is enough. */
				rc = 0;
			} else if (rc) {
				assert_int_equal(rc, fault == FAULT_ENOSPC ? ERR_FULL : ERR_IO);
				final[disk.faulty_call]++;
				if (run.w)
					must_be_dead();
			} else {
				/* Only a spare segment may be lost in silence, and a new file may be written in two
				 * parts. */
				assert_true(fault == FAULT_ENOSPC || fault == FAULT_SHORT ||
				            disk.faulty_call == CALL_CREATE);
			}
			run.rc = 0;
			run.rc_final = true;
			must_reopen();
			wal_close(run.w);
			run.w = NULL;
			disk_cut(at, (unsigned)fault - FAULT_EIO);
			must_reopen();
			assert_int_equal(go(10), 0);
			must_reopen();
			wal_close(run.w);
			disk_stop();
		}
	}
	remove_dir(dir);
}

static void test_disk_failures_are_final(void **state)
{
	(void)state;
	unsigned final[CALL_KINDS] = { 0 };
	for (uint64_t seed = 21; seed <= 32; seed++)
		fail_everywhere(seed, 60, 4, final);
	for (int call = 0; call < CALL_KINDS; call++)
		assert_true(final[call] > 0);
}

/* F22, word for word: a sync that failed and "succeeds" when it is asked again proves nothing, and is not asked again.
 */
static void test_disk_failed_sync_is_not_retried(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	start_run(dir, 3);
	assert_int_equal(go(0), 0);
	assert_int_equal(do_put(1, 0), 0);
	assert_int_equal(do_append(), 0);
	disk_plan(1, FAULT_EIO);
	assert_int_equal(do_sync(), ERR_IO);
	assert_int_equal(disk.faulty_call, CALL_SYNC);
	must_be_dead();
	wal_close(run.w);
	run.w = NULL;
	/* The next start still reads the records from memory. It may keep them, but then they must be on disk. */
	must_reopen();
	const raft_index last = run.last;
	assert_true(last > 0);
	wal_close(run.w);
	run.w = NULL;
	disk_cut(1, 0);
	must_reopen();
	assert_int_equal(run.last, last);
	wal_close(run.w);
	disk_stop();
	remove_dir(dir);
}

/* A full disk costs the spare segment first; the log goes on in the room it has, asks again later, and is done for only
 * when that is used up. Then a restart with room has everything. */
static void test_disk_full_is_met_by_the_spare(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	start_run(dir, 4);
	run.o.segment_bytes = 4096;
	assert_int_equal(go(0), 0);
	assert_int_equal(do_put(1, 0), 0);
	disk_plan(2, FAULT_ENOSPC); /* created, then no room for its bytes */
	disk.always = true;
	assert_true(wal_wants_segment(run.w));
	assert_int_equal(do_prepare(), ERR_FULL);
	assert_false(wal_wants_segment(run.w)); /* not at once again */
	assert_false(has_file(run.o.dir, "next.tmp"));
	disk.fault = FAULT_NONE; /* what lies in a filled segment needs no room */
	for (int i = 0; i < 3; i++)
		assert_int_equal(do_append(), 0);
	assert_int_equal(do_sync(), 0);
	disk_plan(1, FAULT_ENOSPC);
	disk.always = true;
	int rc = 0;
	while (!rc)
		rc = do_append();
	assert_int_equal(rc, ERR_FULL);
	must_be_dead();
	disk.fault = FAULT_NONE;
	must_reopen();
	wal_close(run.w);
	disk_stop();
	remove_dir(dir);
}

/* F27: a start on a full disk, or one that fails in any write, leaves every file as it was. */
static void test_disk_failed_start_changes_nothing(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	for (int fault = FAULT_EIO; fault <= FAULT_ENOSPC; fault++) {
		start_run(dir, 6);
		assert_int_equal(go(0), 0);
		assert_int_equal(do_put(1, 0), 0);
		for (int i = 0; i < 5; i++)
			assert_int_equal(do_append(), 0);
		assert_int_equal(do_sync(), 0);
		wal_close(run.w);
		run.w = NULL;
		const uint64_t before = hash_dir(run.o.dir);
		for (unsigned at = 1; at <= 3; at++) { /* create, write, sync: the calls before the rename */
			disk_plan(at, (enum disk_fault)fault);
			struct err e = { 0 };
			assert_int_equal(try_open(&e), fault == FAULT_ENOSPC ? ERR_FULL : ERR_IO);
			assert_int_equal(disk.faults, 1);
			assert_true(disk.faulty_call != CALL_RENAME);
			assert_true(hash_dir(run.o.dir) == before);
		}
		disk_plan(1, FAULT_NONE);
		must_reopen();
		wal_close(run.w);
		disk_stop();
	}
	remove_dir(dir);
}

/* ---- the order of calls ---- */

/* F19 and F21 in their plainest form: what one acknowledged append costs, and what a roll adds. */
static void test_disk_calls_of_an_append(void **state)
{
	(void)state;
	char dir[64];
	snprintf(dir, sizeof(dir), "%s", make_dir());
	start_run(dir, 9);
	run.o.segment_bytes = 4096;
	assert_int_equal(go(0), 0);
	assert_int_equal(do_put(1, 0), 0);
	struct err e = { 0 };
	unsigned before[CALL_KINDS];
	memcpy(before, disk.count_of, sizeof(before));
	must_append(run.w, NULL, 1, 20, 1, 20);
	assert_int_equal(disk.count_of[CALL_WRITE], before[CALL_WRITE] + 1);
	assert_int_equal(disk.count_of[CALL_SYNC], before[CALL_SYNC]);
	assert_int_equal(wal_sync(run.w, &e), 0);
	assert_int_equal(disk.count_of[CALL_SYNC], before[CALL_SYNC] + 1);
	assert_int_equal(wal_sync(run.w, &e), 0); /* nothing to do */
	assert_int_equal(disk.count_of[CALL_SYNC], before[CALL_SYNC] + 1);
	assert_int_equal(disk.count_of[CALL_SYNC_DIR], before[CALL_SYNC_DIR]);

	assert_int_equal(wal_prepare_segment(run.w, &e), 0);
	memcpy(before, disk.count_of, sizeof(before));
	must_append(run.w, NULL, 21, 40, 1, 20);
	assert_int_equal(disk.count_of[CALL_WRITE], before[CALL_WRITE] + 3); /* records, header, records */
	assert_int_equal(disk.count_of[CALL_SYNC], before[CALL_SYNC] + 2);   /* the old segment, the header */
	assert_int_equal(disk.count_of[CALL_RENAME], before[CALL_RENAME] + 1);
	assert_int_equal(disk.count_of[CALL_SYNC_DIR], before[CALL_SYNC_DIR] + 1); /* before any record in it */
	assert_int_equal(disk.count_of[CALL_CREATE], before[CALL_CREATE]);
	assert_true(disk_names_are_durable());

	memcpy(before, disk.count_of, sizeof(before));
	assert_int_equal(wal_put_hardstate(run.w, 2, 1, &e), 0);
	assert_int_equal(disk.count_of[CALL_WRITE], before[CALL_WRITE] + 1);
	assert_int_equal(disk.count_of[CALL_SYNC], before[CALL_SYNC]); /* O_DSYNC does it */
	wal_close(run.w);
	disk_stop();
	remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disk_power_cuts),
		cmocka_unit_test(test_disk_power_cuts_in_reset),
		cmocka_unit_test(test_disk_power_cuts_in_hardstate),
		cmocka_unit_test(test_disk_compaction_waits_for_an_override),
		cmocka_unit_test(test_disk_failures_are_final),
		cmocka_unit_test(test_disk_failed_sync_is_not_retried),
		cmocka_unit_test(test_disk_full_is_met_by_the_spare),
		cmocka_unit_test(test_disk_failed_start_changes_nothing),
		cmocka_unit_test(test_disk_calls_of_an_append),
	};
	log_set_sink(no_lines, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
