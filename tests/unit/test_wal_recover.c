/* F20 and its kin: a torn last record is dropped and nothing else; damage to what is known durable stops the start and
 * changes no file.
 */
#include "wal_harness.h"

#include "base/bytes.h"
#include "base/rand.h"

#define FIRST_SEGMENT "0000000000000001.seg"
#define SECOND_SEGMENT "0000000000000002.seg"

/* ---- the largest piece of memory asked for; not under sanitizers, which bring their own malloc ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t largest_alloc;

extern void *__libc_malloc(size_t size); /* NOLINT */

void *malloc(size_t size)
{
	if (size > largest_alloc)
		largest_alloc = size;
	return __libc_malloc(size);
}
#else
static size_t largest_alloc;
#endif

/* ---- a log on disk that can be put back after each attempt ---- */

struct fixture {
	const char *dir;
	struct wal_options o;
	struct model m;
	struct file slots;
	struct file segments[2];
	size_t segment_count;
	/* where the records of the last segment stand */
	uint32_t starts[64];
	raft_index indexes[64];
	size_t count;
	uint32_t end;
};

static const char *name_of(size_t segment)
{
	return segment ? SECOND_SEGMENT : FIRST_SEGMENT;
}

static void load_fixture(struct fixture *f)
{
	f->segment_count = count_segments(f->o.dir);
	assert_true(f->segment_count >= 1 && f->segment_count <= 2);
	for (size_t i = 0; i < f->segment_count; i++)
		f->segments[i] = load_file(f->o.dir, name_of(i));
	f->slots = load_file(f->o.dir, "hardstate");

	const struct file *last = &f->segments[f->segment_count - 1];
	struct wal_header h;
	assert_true(wal_header_decode(last->bytes, last->len, &h));
	f->end = WAL_HEADER_BYTES;
	f->count = 0;
	struct wal_record r;
	while (wal_record_decode(last->bytes + f->end, last->len - f->end, h.seed, &r)) {
		f->starts[f->count] = f->end;
		f->indexes[f->count++] = r.index;
		f->end += (uint32_t)wal_record_size(r.len);
	}
	assert_true(f->count > 1);
}

/* Each record synced for itself, so that each is declared durable by the next. */
static struct fixture *new_fixture(size_t segment_bytes, size_t entries, uint32_t len)
{
	struct fixture *f = mem_zalloc(sizeof(*f));
	f->dir = make_dir();
	f->o = options_for(f->dir, segment_bytes);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &f->m, 5, 9);
	for (size_t i = 1; i <= entries; i++) {
		must_append(w, &f->m, i, 1, 1 + i / 4, len + (uint32_t)i);
		must_sync(w);
	}
	wal_close(w);
	load_fixture(f);
	return f;
}

static void free_fixture(struct fixture *f)
{
	remove_dir(f->dir);
	for (size_t i = 0; i < f->segment_count; i++)
		mem_free(f->segments[i].bytes);
	mem_free(f->slots.bytes);
	mem_free(f);
}

static void put_back(const struct fixture *f)
{
	clear_dir(f->o.dir);
	for (size_t i = 0; i < f->segment_count; i++)
		store_file(f->o.dir, name_of(i), f->segments[i].bytes, f->segments[i].len);
	store_file(f->o.dir, "hardstate", f->slots.bytes, f->slots.len);
}

/* Opens what lies there, which holds all but the records from `lost` on, and goes on from it. */
static void must_recover(struct fixture *f, raft_index lost, raft_index dropped)
{
	static struct model m;
	m = f->m;
	m.last = lost - 1;
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	assert_int_equal(rec.dropped_index, dropped);
	check_recovered(&rec, &m);
	wal_recovered_fini(&rec);
	check_log(w, &m);
	must_append(w, &m, lost, 2, 5, 11);
	must_sync(w);
	w = reopen(w, &f->o, &m);
	wal_close(w);
}

/* Refused, with the file, the offset and the index named, what to do, and nothing touched. */
static void must_refuse(struct fixture *f, const char *name, int64_t offset, int64_t index)
{
	const uint64_t before = hash_dir(f->o.dir);
	struct wal_recovered rec;
	struct wal *w = NULL;
	struct err e = { 0 };
	const int rc = wal_open(&f->o, &w, &rec, &e);
	if (rc != ERR_CORRUPT)
		print_error("%s, offset %lld: %s: %s\n", name, (long long)offset, err_name(rc), e.msg);
	assert_int_equal(rc, ERR_CORRUPT);
	assert_null(w);
	assert_true(hash_dir(f->o.dir) == before);
	char want[128];
	if (!strstr(e.msg, name))
		print_error("not about %s: %s\n", name, e.msg);
	assert_non_null(strstr(e.msg, name));
	assert_non_null(strstr(e.msg, WAL_REMEDY)); /* whole: nothing of it is cut off */
	if (offset >= 0) {
		snprintf(want, sizeof(want), "offset %lld", (long long)offset);
		assert_non_null(strstr(e.msg, want));
	}
	if (index >= 0) {
		snprintf(want, sizeof(want), "index %lld", (long long)index);
		assert_non_null(strstr(e.msg, want));
	}
}

/* ---- the torn tail ---- */

enum tear { TEAR_CUT, TEAR_ZERO, TEAR_ONES, TEAR_ONES_TO_END, TEAR_COUNT };

static void tear_last(struct fixture *f, uint32_t from, enum tear tear)
{
	put_back(f);
	const struct file *last = &f->segments[f->segment_count - 1];
	uint8_t *bytes = mem_dup(last->bytes, last->len);
	size_t len = last->len;
	const uint32_t start = f->starts[f->count - 1];
	switch (tear) {
	case TEAR_CUT: len = from; break;
	case TEAR_ZERO: memset(bytes + from, 0, f->end - from); break;
	case TEAR_ONES: memset(bytes + from, 0xff, f->end - from); break;
	default: memset(bytes + from, 0xff, len - from); break;
	}
	store_file(f->o.dir, name_of(f->segment_count - 1), bytes, len);

	const raft_index last_index = f->m.last;
	const bool unchanged = len == last->len && memcmp(bytes + start, last->bytes + start, f->end - start) == 0;
	const bool visible = from > start || tear == TEAR_ONES || tear == TEAR_ONES_TO_END;
	mem_free(bytes);
	if (unchanged) /* zeros over padding */
		must_recover(f, last_index + 1, 0);
	else
		must_recover(f, last_index, visible ? last_index : 0);
}

static void tear_everywhere(struct fixture *f)
{
	for (uint32_t from = f->starts[f->count - 1]; from < f->end; from++) {
		for (int tear = 0; tear < TEAR_COUNT; tear++)
			tear_last(f, from, (enum tear)tear);
	}
}

/* F20: from each byte of the last record on: cut, zeroed, 0xff. Exactly that record is dropped. */
static void test_recover_drops_a_torn_tail(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(2048, 9, 20);
	assert_int_equal(f->segment_count, 1);
	tear_everywhere(f);
	free_fixture(f);
}

/* The same when it is not in the first segment. */
static void test_recover_drops_a_torn_tail_of_a_later_segment(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(1024, 12, 30);
	assert_int_equal(f->segment_count, 2);
	tear_everywhere(f);
	free_fixture(f);
}

/* Records of one unsynced batch: what stands behind a torn one declares nothing, and all go. */
static void test_recover_drops_a_torn_batch(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	must_append(w, &f->m, 7, 5, 4, 21);
	wal_close(w);
	for (size_t i = 0; i < f->segment_count; i++)
		mem_free(f->segments[i].bytes);
	mem_free(f->slots.bytes);
	load_fixture(f);
	assert_int_equal(f->count, 11);
	for (size_t i = 6; i < 11; i++) {
		put_back(f);
		f->segments[0].bytes[f->starts[i] + 30] ^= 4;
		store_file(f->o.dir, FIRST_SEGMENT, f->segments[0].bytes, f->segments[0].len);
		f->segments[0].bytes[f->starts[i] + 30] ^= 4;
		must_recover(f, f->indexes[i], f->indexes[i]);
	}
	free_fixture(f);
}

/* A torn override says which index it was about. */
static void test_recover_names_a_torn_override(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	must_append(w, NULL, 3, 1, 5, 40);
	wal_close(w);
	struct file seg = load_file(f->o.dir, FIRST_SEGMENT);
	seg.bytes[f->end + WAL_RECORD_BYTES + 10] ^= 1;
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	mem_free(seg.bytes);
	must_recover(f, 7, 3);
	free_fixture(f);
}

/* F20: a length of 0xffffffff is not a length. */
static void test_recover_allocates_nothing_for_a_huge_length(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	uint8_t *bytes = f->segments[0].bytes;
	put_le32(bytes + f->starts[f->count - 1], 0xffffffff);
	put_back(f);
	largest_alloc = 0;
	must_recover(f, 6, 6);
	assert_true(largest_alloc < (4u << 20));

	/* And behind the back of an open log. */
	put_back(f);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	struct file seg = load_file(f->o.dir, FIRST_SEGMENT);
	put_le32(seg.bytes + f->starts[3], 0xffffffff);
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	mem_free(seg.bytes);
	largest_alloc = 0;
	struct entry out[10];
	size_t n;
	struct err e = { 0 };
	assert_int_equal(wal_read(w, 1, 5, 10000, out, 10, &n, &e), ERR_CORRUPT);
	assert_int_equal(n, 0);
	assert_non_null(strstr(e.msg, FIRST_SEGMENT));
	assert_non_null(strstr(e.msg, "index 4"));
	assert_non_null(strstr(e.msg, WAL_REMEDY));
	assert_true(largest_alloc < (1u << 20));
	wal_close(w);
	free_fixture(f);
}

/* What the disk changes after the start is found when it is read, and what stands before it can still be had. */
static void test_recover_reading_verifies(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	struct file seg = load_file(f->o.dir, FIRST_SEGMENT);
	seg.bytes[f->starts[4] + WAL_RECORD_BYTES + 3] ^= 1;
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	struct entry out[10];
	size_t n = 0;
	struct err e = { 0 };
	assert_int_equal(wal_read(w, 1, 6, 10000, out, 10, &n, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "index 5"));
	check_range(w, &f->m, 1, 4, 10000);
	seg.bytes[10] ^= 1; /* in the header */
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	assert_int_equal(wal_read(w, 1, 4, 10000, out, 10, &n, &e), ERR_CORRUPT);
	mem_free(seg.bytes);
	wal_close(w);
	free_fixture(f);
}

/* ---- damage ---- */

/* F20: a byte flipped anywhere in a record that a later one declares durable. */
static void test_recover_refuses_damage(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 9, 20);
	assert_int_equal(f->segment_count, 1);
	struct file *seg = &f->segments[0];
	put_back(f);
	size_t record = 0;
	for (uint32_t at = f->starts[0]; at < f->starts[f->count - 1]; at++) {
		if (at == f->starts[record + 1])
			record++;
		for (unsigned bits = 1; bits < 256; bits = bits * 16 + 15) {
			seg->bytes[at] ^= (uint8_t)bits;
			store_file(f->o.dir, FIRST_SEGMENT, seg->bytes, seg->len);
			must_refuse(f, FIRST_SEGMENT, f->starts[record], (int64_t)f->indexes[record]);
			seg->bytes[at] ^= (uint8_t)bits;
		}
	}
	free_fixture(f);
}

/* The same in a segment that has a successor, in the record before its end too; and in each header. */
static void test_recover_refuses_damage_before_a_segment(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(1024, 12, 30);
	assert_int_equal(f->segment_count, 2);
	put_back(f);
	struct file *first = &f->segments[0];
	const raft_index in_first = f->indexes[0] - 1;
	uint32_t at = WAL_HEADER_BYTES;
	for (raft_index i = 1; i <= in_first; i++) {
		const uint32_t size = (uint32_t)wal_record_size(get_le32(first->bytes + at));
		for (uint32_t b = at; b < at + size; b++) {
			first->bytes[b] ^= 0x40;
			store_file(f->o.dir, FIRST_SEGMENT, first->bytes, first->len);
			must_refuse(f, FIRST_SEGMENT, at, (int64_t)i);
			first->bytes[b] ^= 0x40;
		}
		store_file(f->o.dir, FIRST_SEGMENT, first->bytes, at); /* cut, on a record's border */
		must_refuse(f, FIRST_SEGMENT, at, (int64_t)i);
		at += size;
	}
	for (size_t s = 0; s < 2; s++) {
		put_back(f);
		struct file *seg = &f->segments[s];
		for (uint32_t b = 0; b < WAL_HEADER_BYTES; b++) {
			seg->bytes[b] ^= 1;
			store_file(f->o.dir, name_of(s), seg->bytes, seg->len);
			must_refuse(f, name_of(s), 0, s ? (int64_t)in_first + 1 : 1);
			seg->bytes[b] ^= 1;
		}
		store_file(f->o.dir, name_of(s), seg->bytes, WAL_HEADER_BYTES - 1);
		must_refuse(f, name_of(s), 0, -1);
		store_file(f->o.dir, name_of(s), seg->bytes, 0);
		must_refuse(f, name_of(s), 0, -1);
	}
	free_fixture(f);
}

/* Bits flipped in two neighbouring records, and a whole stretch overwritten: the witness is looked for at every 8
 * bytes. */
static void test_recover_refuses_wide_damage(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 9, 20);
	struct file *seg = &f->segments[0];
	struct rand r;
	rand_seed(&r, 7);
	for (int round = 0; round < 200; round++) {
		put_back(f);
		uint8_t *bytes = mem_dup(seg->bytes, seg->len);
		/* Anything up to the last record, which stands and declares the one before durable. */
		const uint32_t from = f->starts[0] + (uint32_t)rand_below(&r, f->starts[f->count - 2] - f->starts[0]);
		const uint32_t to = from + 1 + (uint32_t)rand_below(&r, f->starts[f->count - 1] - from);
		for (uint32_t at = from; at < to && at < f->starts[f->count - 1]; at++)
			bytes[at] = (uint8_t)(round % 3 == 0 ? 0 : round % 3 == 1 ? 0xff : rand_u64(&r));
		if (memcmp(bytes, seg->bytes, seg->len) != 0) {
			store_file(f->o.dir, FIRST_SEGMENT, bytes, seg->len);
			must_refuse(f, FIRST_SEGMENT, -1, -1);
		}
		mem_free(bytes);
	}
	free_fixture(f);
}

/* A segment missing in the middle, a file under another's name, and one that lost its end by exactly some records. */
static void test_recover_refuses_missing_segments(void **state)
{
	(void)state;
	const char *dir = make_dir();
	struct fixture f = { .dir = dir, .o = options_for(dir, 512) };
	struct wal_recovered rec;
	struct wal *w = must_open(&f.o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, &f.m, 1, 0);
	must_append(w, &f.m, 1, 20, 1, 100);
	must_sync(w);
	wal_close(w);
	assert_true(count_segments(f.o.dir) >= 5);
	struct file second = load_file(f.o.dir, SECOND_SEGMENT);
	struct file third = load_file(f.o.dir, "0000000000000003.seg");
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f.o.dir, SECOND_SEGMENT);
	assert_int_equal(unlink(path), 0);
	must_refuse(&f, SECOND_SEGMENT, 0, -1);
	store_file(f.o.dir, SECOND_SEGMENT, third.bytes, third.len);
	must_refuse(&f, SECOND_SEGMENT, 0, -1);
	store_file(f.o.dir, SECOND_SEGMENT, second.bytes, second.len);

	/* Missing at the front looks like compaction; the base says so, and the node compares it with its snapshot
	 * (F18). */
	snprintf(path, sizeof(path), "%s/%s", f.o.dir, FIRST_SEGMENT);
	assert_int_equal(unlink(path), 0);
	w = must_open(&f.o, &rec);
	assert_true(rec.base_index > 0);
	assert_int_equal(rec.first_index, rec.base_index + 1);
	wal_recovered_fini(&rec);
	wal_close(w);

	/* That start wrote the slots with the durable position: without its last segment the log is too short for them.
	 */
	snprintf(path, sizeof(path), "%s/%016x.seg", f.o.dir, 2 + count_segments(f.o.dir) - 1);
	assert_int_equal(unlink(path), 0);
	must_refuse(&f, "slots of term and vote", -1, -1);
	mem_free(second.bytes);
	mem_free(third.bytes);
	remove_dir(dir);
}

/* The slots of term and vote are a witness too: what was synced before they were written may not be missing after. */
static void test_recover_believes_the_slots(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(2048, 6, 20);
	struct wal_recovered rec;
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	must_put(w, NULL, 6, 0);
	wal_close(w);
	struct file seg = load_file(f->o.dir, FIRST_SEGMENT);
	const uint32_t last = f->starts[f->count - 1];
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, last);
	must_refuse(f, FIRST_SEGMENT, last, 6);
	seg.bytes[last + 70] ^= 1;
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	must_refuse(f, FIRST_SEGMENT, last, 6);
	mem_free(seg.bytes);
	free_fixture(f);
}

/* Records that verify and make no sense: a gap, a term that goes back, another term before, an index before the log. */
static void test_recover_refuses_what_makes_no_sense(void **state)
{
	(void)state;
	static const struct {
		raft_index index;
		raft_term term, prev_term;
		const char *why;
	} cases[] = {
		{ 8, 5, 2, "entries are missing" },
		{ 7, 1, 2, "its term is lower" },
		{ 7, 3, 1, "another term" },
		{ 3, 3, 2, "another term" },
		{ UINT64_MAX, 3, 2, "entries are missing" },
	};
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_header h;
	struct file *seg = &f->segments[0];
	assert_true(wal_header_decode(seg->bytes, seg->len, &h));
	struct wal_record last;
	assert_true(wal_record_decode(seg->bytes + f->starts[5], seg->len - f->starts[5], h.seed, &last));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put_back(f);
		uint8_t *bytes = mem_dup(seg->bytes, seg->len);
		const struct wal_record r = { .kind = ENTRY_NOOP,
			                      .prev_crc = last.crc,
			                      .index = cases[i].index,
			                      .term = cases[i].term,
			                      .prev_term = cases[i].prev_term };
		(void)wal_record_encode(&r, NULL, h.seed, bytes + f->end);
		store_file(f->o.dir, FIRST_SEGMENT, bytes, seg->len);
		mem_free(bytes);
		must_refuse(f, cases[i].why, f->end, -1);
	}
	free_fixture(f);
}

/* A record that verifies but follows another one than it says is none. */
static void test_recover_checks_the_chain(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_header h;
	struct file *seg = &f->segments[0];
	assert_true(wal_header_decode(seg->bytes, seg->len, &h));
	for (size_t i = 4; i < 6; i++) {
		put_back(f);
		uint8_t *bytes = mem_dup(seg->bytes, seg->len);
		(void)wal_record_reseal(bytes + f->starts[i], 12345, h.seed);
		struct wal_record r;
		assert_true(wal_record_decode(bytes + f->starts[i], seg->len - f->starts[i], h.seed, &r));
		store_file(f->o.dir, FIRST_SEGMENT, bytes, seg->len);
		mem_free(bytes);
		if (i == 5)
			must_recover(f, 6, 6);
		else
			must_refuse(f, FIRST_SEGMENT, f->starts[i], (int64_t)f->indexes[i]);
	}
	free_fixture(f);
}

/* An entry of a term that the slots of term and vote do not know yet: they are older than the log. */
static void test_recover_compares_terms(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 6, 20);
	struct wal_header h;
	struct file *seg = &f->segments[0];
	struct wal_record last;
	assert_true(wal_header_decode(seg->bytes, seg->len, &h));
	assert_true(wal_record_decode(seg->bytes + f->starts[5], seg->len - f->starts[5], h.seed, &last));
	const struct wal_record r = {
		.kind = ENTRY_NOOP, .prev_crc = last.crc, .index = 7, .term = 6, .prev_term = last.term, .slot_seq = 1
	};
	(void)wal_record_encode(&r, NULL, h.seed, seg->bytes + f->end);
	store_file(f->o.dir, FIRST_SEGMENT, seg->bytes, seg->len);
	must_refuse(f, "a vote is lost", -1, 7);
	free_fixture(f);
}

/* ---- stale bytes ---- */

/* Bytes of an earlier life of the file, laid exactly where they would fit, never verify: each life has its own seed. */
static void test_recover_ignores_stale_bytes(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 9, 20);
	struct file *old = &f->segments[0];
	for (size_t keep = 1; keep < f->count; keep++) {
		/* The first life ended with `keep` records; its other bytes turn up again in the second. */
		clear_dir(f->o.dir);
		store_file(f->o.dir, "hardstate", f->slots.bytes, f->slots.len);
		store_file(f->o.dir, FIRST_SEGMENT, old->bytes, f->starts[keep]);
		struct wal_recovered rec;
		struct wal *w = must_open(&f->o, &rec);
		assert_int_equal(rec.last_index, f->indexes[keep] - 1);
		wal_recovered_fini(&rec);
		wal_close(w);
		struct file now = load_file(f->o.dir, FIRST_SEGMENT);
		assert_int_equal(now.len, 4096);
		memcpy(now.bytes + f->starts[keep], old->bytes + f->starts[keep], f->end - f->starts[keep]);
		store_file(f->o.dir, FIRST_SEGMENT, now.bytes, now.len);
		mem_free(now.bytes);
		must_recover(f, f->indexes[keep], f->indexes[keep]);
	}
	free_fixture(f);
}

/* A payload that is itself a piece of a log, with true records of another seed, is payload. */
static void test_recover_ignores_records_in_payloads(void **state)
{
	(void)state;
	struct fixture *f = new_fixture(4096, 9, 20);
	struct wal_recovered rec;
	clear_dir(f->o.dir);
	struct wal *w = must_open(&f->o, &rec);
	wal_recovered_fini(&rec);
	struct err e = { 0 };
	assert_int_equal(wal_put_hardstate(w, 5, 9, &e), 0);
	struct entry entry = make_entry(1, 1, ENTRY_COMMAND, f->end);
	memcpy(entry.slab->data, f->segments[0].bytes, f->end);
	assert_int_equal(wal_append(w, &entry, 1, &e), 0);
	must_sync(w);
	entry_unref(&entry);
	wal_close(w);
	struct file seg = load_file(f->o.dir, FIRST_SEGMENT);
	seg.bytes[WAL_HEADER_BYTES + 20] ^= 1; /* the record is torn; what it carries must not speak against that */
	store_file(f->o.dir, FIRST_SEGMENT, seg.bytes, seg.len);
	mem_free(seg.bytes);
	must_recover(f, 1, 1);
	free_fixture(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recover_drops_a_torn_tail),
		cmocka_unit_test(test_recover_drops_a_torn_tail_of_a_later_segment),
		cmocka_unit_test(test_recover_drops_a_torn_batch),
		cmocka_unit_test(test_recover_names_a_torn_override),
		cmocka_unit_test(test_recover_allocates_nothing_for_a_huge_length),
		cmocka_unit_test(test_recover_reading_verifies),
		cmocka_unit_test(test_recover_refuses_damage),
		cmocka_unit_test(test_recover_refuses_damage_before_a_segment),
		cmocka_unit_test(test_recover_refuses_wide_damage),
		cmocka_unit_test(test_recover_refuses_missing_segments),
		cmocka_unit_test(test_recover_believes_the_slots),
		cmocka_unit_test(test_recover_refuses_what_makes_no_sense),
		cmocka_unit_test(test_recover_checks_the_chain),
		cmocka_unit_test(test_recover_compares_terms),
		cmocka_unit_test(test_recover_ignores_stale_bytes),
		cmocka_unit_test(test_recover_ignores_records_in_payloads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
