/* wal/index.c - where entries stand, published for readers that take no lock.
 *
 * A sparse list of points in log order: a new one where a segment begins, where a record overrides earlier ones, and
 * every 64 KiB. Between two points the live entries stand one behind the other; what an override killed lies in front
 * of a point, and a reader jumps over it.
 *
 * One writer, the log thread, under a version counter that is odd while it changes something: it never waits. A reader
 * copies the points it needs and starts over when the counter moved. All that both touch is atomic; the writer's
 * release stores and the reader's acquire loads order it without a fence.
 * An array that became too small is kept until the end, since a reader may still look at it: arrays double, so all old
 * ones together are smaller than the one in use.
 */
#include "wal/wal_internal.h"

#include <sched.h>

#include "base/mem.h"

#define POINT_BYTES (64u << 10)
#define POINTS_FIRST 256u

struct wal_point {
	_Atomic raft_index index;
	_Atomic uint64_t segment;
	_Atomic uint64_t offset;
};

struct wal_points {
	struct wal_points *older;
	uint64_t cap;
	struct wal_point at[];
};

static struct wal_points *points_new(uint64_t cap, struct wal_points *older)
{
	struct wal_points *p = mem_zalloc(sizeof(*p) + (size_t)cap * sizeof(p->at[0]));
	p->older = older;
	p->cap = cap;
	return p;
}

static struct wal_span get_point(const struct wal_points *p, uint64_t i)
{
	return (struct wal_span){
		.index = atomic_load_explicit(&p->at[i].index, memory_order_acquire),
		.at = { atomic_load_explicit(&p->at[i].segment, memory_order_acquire),
		        (uint32_t)atomic_load_explicit(&p->at[i].offset, memory_order_acquire) },
	};
}

static void set_point(struct wal_points *p, uint64_t i, struct wal_span s)
{
	atomic_store_explicit(&p->at[i].index, s.index, memory_order_release);
	atomic_store_explicit(&p->at[i].segment, s.at.segment, memory_order_release);
	atomic_store_explicit(&p->at[i].offset, s.at.offset, memory_order_release);
}

/* The writer's own view: nobody else changes these. */
static struct wal_points *own_points(const struct wal_index *ix)
{
	return atomic_load_explicit(&ix->points, memory_order_relaxed);
}

static uint64_t own_count(const struct wal_index *ix)
{
	return atomic_load_explicit(&ix->count, memory_order_relaxed);
}

static void set_count(struct wal_index *ix, uint64_t count)
{
	atomic_store_explicit(&ix->count, count, memory_order_release);
}

void wal_index_init(struct wal_index *ix)
{
	atomic_init(&ix->version, 0);
	atomic_init(&ix->points, points_new(POINTS_FIRST, NULL));
	atomic_init(&ix->count, 0);
	atomic_init(&ix->first, 0);
	atomic_init(&ix->last, 0);
}

void wal_index_fini(struct wal_index *ix)
{
	for (struct wal_points *p = own_points(ix); p;) {
		struct wal_points *older = p->older;
		mem_free(p);
		p = older;
	}
	atomic_store_explicit(&ix->points, NULL, memory_order_relaxed);
}

void wal_index_begin(struct wal_index *ix)
{
	const uint64_t v = atomic_load_explicit(&ix->version, memory_order_relaxed);
	assert(v % 2 == 0);
	atomic_store_explicit(&ix->version, v + 1, memory_order_relaxed);
}

void wal_index_end(struct wal_index *ix)
{
	const uint64_t v = atomic_load_explicit(&ix->version, memory_order_relaxed);
	assert(v % 2 == 1);
	atomic_store_explicit(&ix->version, v + 1, memory_order_release);
}

void wal_index_cut(struct wal_index *ix, raft_index from)
{
	uint64_t count = own_count(ix);
	while (count && get_point(own_points(ix), count - 1).index >= from)
		count--;
	set_count(ix, count);
}

static void push(struct wal_index *ix, struct wal_span s)
{
	struct wal_points *p = own_points(ix);
	const uint64_t count = own_count(ix);
	if (count == p->cap) {
		struct wal_points *bigger = points_new(2 * p->cap, p);
		for (uint64_t i = 0; i < count; i++)
			set_point(bigger, i, get_point(p, i));
		atomic_store_explicit(&ix->points, bigger, memory_order_release);
		p = bigger;
	}
	set_point(p, count, s);
	set_count(ix, count + 1);
}

void wal_index_note(struct wal_index *ix, raft_index index, struct wal_pos at, bool jump)
{
	const uint64_t count = own_count(ix);
	if (count && !jump) {
		const struct wal_span last = get_point(own_points(ix), count - 1);
		assert(last.index < index);
		if (last.at.segment == at.segment && at.offset - last.at.offset < POINT_BYTES)
			return;
	}
	push(ix, (struct wal_span){ index, at });
}

void wal_index_drop(struct wal_index *ix, uint64_t before_segment)
{
	struct wal_points *p = own_points(ix);
	const uint64_t count = own_count(ix);
	uint64_t gone = 0;
	while (gone < count && get_point(p, gone).at.segment < before_segment)
		gone++;
	for (uint64_t i = gone; i < count; i++)
		set_point(p, i - gone, get_point(p, i));
	set_count(ix, count - gone);
}

void wal_index_bound(struct wal_index *ix, raft_index first, raft_index last)
{
	atomic_store_explicit(&ix->first, first, memory_order_release);
	atomic_store_explicit(&ix->last, last, memory_order_release);
}

raft_index wal_index_first_above(const struct wal_index *ix, uint64_t segment)
{
	const struct wal_points *p = own_points(ix);
	const uint64_t count = own_count(ix);
	for (uint64_t i = 0; i < count; i++) {
		const struct wal_span s = get_point(p, i);
		if (s.at.segment > segment)
			return s.index;
	}
	return 0;
}

/* What is read here may be torn: nothing is believed before the caller saw the version unmoved. */
static void copy_spans(const struct wal_index *ix, raft_index lo, struct wal_look *out)
{
	const struct wal_points *p = atomic_load_explicit(&ix->points, memory_order_acquire);
	uint64_t count = atomic_load_explicit(&ix->count, memory_order_acquire);
	out->first = atomic_load_explicit(&ix->first, memory_order_acquire);
	out->last = atomic_load_explicit(&ix->last, memory_order_acquire);
	out->count = 0;
	out->covered = out->last;
	if (count > p->cap)
		count = p->cap;

	uint64_t low = 0; /* points before it are at or below lo */
	uint64_t high = count;
	while (low < high) {
		const uint64_t mid = low + (high - low) / 2;
		if (get_point(p, mid).index <= lo)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return;
	uint64_t i = low - 1;
	for (; i < count && out->count < WAL_SPANS; i++)
		out->spans[out->count++] = get_point(p, i);
	if (i < count)
		out->covered = get_point(p, i).index - 1;
}

void wal_index_look(const struct wal_index *ix, raft_index lo, struct wal_look *out)
{
	for (;;) {
		const uint64_t before = atomic_load_explicit(&ix->version, memory_order_acquire);
		if (before % 2 == 0) {
			copy_spans(ix, lo, out);
			if (atomic_load_explicit(&ix->version, memory_order_acquire) == before)
				break;
		}
		sched_yield();
	}
	if (out->first == 0 || lo < out->first || lo > out->last)
		out->count = 0;
}
