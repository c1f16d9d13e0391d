/* The log thread's turn, and the way to it and back.
 *
 * Good path: everything that queued since the last turn is written, then synced once, then handed back in order. Term
 * and vote of the newest batch that has any are written first of all: hard state may run ahead of entries, never
 * behind, and older pairs of the same turn are superseded before anybody could have seen them. How it fails: the first
 * failed write or sync is final. That batch and every later one come back with the code, raft steps down on it, and the
 * node stops; a restart reads the log anew.
 * What raft no longer needs of the log is removed behind the acknowledgements of a turn. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

#define SEGMENT_RETRY_MS 1000

/* ---- consensus thread ---- */

static void free_batch(struct node_log_batch *b)
{
	for (size_t i = 0; i < b->count; i++)
		entry_unref(&b->entries[i]);
	mem_free(b);
}

void node_log_put(struct node *n, struct node_log_batch *b)
{
	b->next = NULL;
	if (n->log_feed.last)
		n->log_feed.last->next = b;
	else
		n->log_feed.first = b;
	n->log_feed.last = b;
	node_log_flush(n);
}

void node_log_put_persist(struct node *n, const struct raft_persist *p)
{
	assert(p->ticket != 0);
	struct node_log_batch *b = mem_zalloc(sizeof(*b) + p->entry_count * sizeof(b->entries[0]));
	b->ticket = p->ticket;
	b->hard_state = p->hard_state;
	b->term = p->term;
	b->vote = p->vote;
	b->reset_to = p->reset_to;
	b->reset_term = p->reset_term;
	b->count = p->entry_count;
	for (size_t i = 0; i < p->entry_count; i++) {
		b->entries[i] = p->entries[i];
		entry_ref(&b->entries[i]);
	}
	node_log_put(n, b);
}

void node_log_put_identity(struct node *n)
{
	struct node_log_batch *b = mem_zalloc(sizeof(*b));
	b->cluster_id = n->self.cluster_id;
	b->minted = n->self.minted;
	b->admitted = n->self.admitted;
	node_log_put(n, b);
}

void node_log_flush(struct node *n)
{
	struct node_log_feed *f = &n->log_feed;
	while (f->first && f->in_flight < n->o.log_slots) {
		struct node_log_batch *b = f->first;
		f->first = b->next;
		if (!f->first)
			f->last = NULL;
		f->in_flight++;
		const bool put = queue_put(n->log_in, &b);
		assert(put); /* as many slots as may be in flight */
	}
}

void node_log_drain(struct node *n)
{
	struct node_log_batch *b;
	while (queue_take(n->log_out, &b)) {
		n->log_feed.in_flight--;
		if (b->ticket != 0)
			raft_persisted(n->raft, b->ticket, b->status);
		else if (b->status == 0)
			node_bootstrap_written(n);
		free_batch(b);
	}
	node_log_flush(n);
	if (atomic_load_explicit(&n->log_failed, memory_order_acquire))
		node_mark_stopped(n, n->log_reason);
}

void node_log_discard(struct node *n)
{
	struct node_log_batch *b;
	while (queue_take(n->log_in, &b))
		free_batch(b);
	while (queue_take(n->log_out, &b))
		free_batch(b);
	while ((b = n->log_feed.first) != NULL) {
		n->log_feed.first = b->next;
		free_batch(b);
	}
	n->log_feed.last = NULL;
	n->log_feed.in_flight = 0;
}

/* ---- log thread ---- */

static struct node_log_batch *take_all(struct node *n)
{
	struct node_log_batch *first = NULL;
	struct node_log_batch **end = &first;
	struct node_log_batch *b;
	while (queue_take(n->log_in, &b)) {
		b->next = NULL;
		*end = b;
		end = &b->next;
	}
	return first;
}

static int write_identity(struct node *n, const struct node_log_batch *b, struct err *e)
{
	n->log.self.cluster_id = b->cluster_id;
	n->log.self.minted = b->minted;
	n->log.self.admitted = b->admitted;
	wal_set_cluster_id(n->wal, b->cluster_id);
	return node_dir_write_identity(&n->dir, &n->log.self, e);
}

static int write_hard_state(struct node *n, const struct node_log_batch *first, struct err *e)
{
	const struct node_log_batch *newest = NULL;
	for (const struct node_log_batch *b = first; b; b = b->next) {
		if (b->hard_state)
			newest = b;
	}
	if (!newest)
		return 0;
	return wal_put_hardstate(n->wal, newest->term, newest->vote, e);
}

static int write_all(struct node *n, const struct node_log_batch *first, struct err *e)
{
	int rc = 0;
	for (const struct node_log_batch *b = first; b && rc == 0; b = b->next) {
		if (b->cluster_id != 0)
			rc = write_identity(n, b, e);
	}
	if (rc == 0)
		rc = write_hard_state(n, first, e);
	bool dirty = false;
	for (const struct node_log_batch *b = first; b && rc == 0; b = b->next) {
		if (b->reset_to > 0)
			rc = wal_reset(n->wal, b->reset_to, b->reset_term, e);
		if (rc != 0 || b->count == 0)
			continue;
		rc = wal_append(n->wal, b->entries, b->count, e);
		dirty = true;
	}
	if (rc == 0 && dirty)
		rc = wal_sync(n->wal, e);
	return rc;
}

static void fail(struct node *n, int rc, const struct err *e)
{
	n->log.failed = rc;
	snprintf(n->log_reason, sizeof(n->log_reason), "raft log: %.200s", e->msg);
	atomic_store_explicit(&n->log_failed, true, memory_order_release);
	log_error("metastore: stopped writing the raft log", "reason=\"%s\" remedy=\"mend the disk, then start again\"",
	          e->msg);
}

static void run_segment_job(struct job *j)
{
	struct node_segment_job *s = CONTAINER_OF(j, struct node_segment_job, job);
	struct node *n = s->node;
	struct err e = { 0 };
	if (wal_prepare_segment(n->wal, &e) != 0) {
		/* Not final: appending makes its own segment when it must, and fails for good if it cannot. */
		log_warn("log.segment_not_prepared", "error=\"%s\"", e.msg);
		atomic_store_explicit(&s->retry_ms, clock_mono_ms() + SEGMENT_RETRY_MS, memory_order_relaxed);
	}
	atomic_store_explicit(&s->busy, false, memory_order_release);
}

static void prepare_segment(struct node *n)
{
	struct node_segment_job *s = &n->segment;
	if (n->log.failed || atomic_load_explicit(&s->busy, memory_order_acquire) || !wal_wants_segment(n->wal) ||
	    clock_mono_ms() < atomic_load_explicit(&s->retry_ms, memory_order_relaxed))
		return;
	atomic_store_explicit(&s->busy, true, memory_order_relaxed);
	s->node = n;
	s->job.run = run_segment_job;
	pool_submit(n->pool, &s->job);
}

/* After the batches of this turn went back: removing files must not make an acknowledgement wait. */
static bool compact(struct node *n)
{
	const raft_index upto = atomic_load_explicit(&n->compact_upto, memory_order_acquire);
	if (n->log.failed || upto <= n->log.compacted)
		return false;
	struct err e = { 0 };
	n->log.compacted = upto;
	const int rc = wal_compact(n->wal, upto, &e);
	if (rc != 0) {
		fail(n, rc, &e);
		wake_signal(&n->wake);
	}
	return true;
}

bool node_log_turn(struct node *n)
{
	struct node_log_batch *first = take_all(n);
	if (!first)
		return compact(n);
	struct err e = { 0 };
	if (!n->log.failed) {
		const int rc = write_all(n, first, &e);
		if (rc != 0)
			fail(n, rc, &e);
	}
	while (first) {
		struct node_log_batch *b = first;
		first = b->next; /* once put, the batch is the consensus thread's */
		b->status = n->log.failed;
		const bool put = queue_put(n->log_out, &b);
		assert(put); /* as many slots as may be in flight */
	}
	prepare_segment(n);
	(void)compact(n); /* this turn did something in any case */
	return true;
}
