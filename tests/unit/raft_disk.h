/* What of a simulated node survives a crash. Included by raft_promises.h. */
#ifndef TESTS_UNIT_RAFT_DISK_H
#define TESTS_UNIT_RAFT_DISK_H

#include "base/mem.h"
#include "raft_text.h"

struct rc_image {
	raft_index index; /* 0 = none */
	raft_term term;
	struct raft_conf conf;
};

struct rc_disk {
	raft_term term;
	node_id vote;
	raft_index base; /* the log begins behind it */
	raft_term base_term;
	struct entry *log;
	size_t count, cap;
	struct rc_image images[2]; /* newest first */
	raft_index fsm_index;
};

static inline raft_index rc_disk_last(const struct rc_disk *d)
{
	return d->base + d->count;
}

static inline const struct entry *rc_disk_at(const struct rc_disk *d, raft_index index)
{
	return index > d->base && index <= rc_disk_last(d) ? &d->log[index - d->base - 1] : NULL;
}

static inline bool rc_disk_holds(const struct rc_disk *d, raft_index index, raft_term term)
{
	const struct entry *e = rc_disk_at(d, index);
	return index <= d->images[0].index || (e && e->term == term);
}

static inline void rc_disk_cut(struct rc_disk *d, raft_index first)
{
	while (d->count > 0 && rc_disk_last(d) >= first)
		entry_unref(&d->log[--d->count]);
}

static inline void rc_disk_append(struct rc_disk *d, const struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rc_disk_cut(d, v[i].index);
		assert_int_equal(v[i].index, rc_disk_last(d) + 1);
		if (d->count == d->cap) {
			d->cap = d->cap ? d->cap * 2 : 64;
			d->log = mem_realloc(d->log, d->cap * sizeof(*d->log));
		}
		entry_ref(&v[i]);
		d->log[d->count++] = v[i];
	}
}

static inline void rc_disk_reset(struct rc_disk *d, raft_index index, raft_term term)
{
	rc_disk_cut(d, 0);
	d->base = index;
	d->base_term = term;
}

static inline void rc_disk_compact(struct rc_disk *d, raft_index upto)
{
	if (upto <= d->base)
		return;
	const size_t n = (size_t)(upto - d->base);
	assert_true(n <= d->count);
	d->base_term = d->log[n - 1].term;
	for (size_t i = 0; i < n; i++)
		entry_unref(&d->log[i]);
	memmove(d->log, d->log + n, (d->count - n) * sizeof(*d->log));
	d->count -= n;
	d->base = upto;
}

static inline void rc_disk_fini(struct rc_disk *d)
{
	rc_disk_cut(d, 0);
	mem_free(d->log);
	*d = (struct rc_disk){ 0 };
}

/* Entries with slab counts of their own. */
static inline struct entry *rc_copy_entries(const struct entry *v, size_t n)
{
	if (n == 0)
		return NULL;
	struct entry *out = mem_dup(v, n * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		entry_ref(&out[i]);
	return out;
}

static inline void rc_drop_entries(struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		entry_unref(&v[i]);
	mem_free(v);
}

#endif
