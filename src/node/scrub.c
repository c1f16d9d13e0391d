/* The scrub: does fsm.mdb still hold what was written into it?
 *
 * Each bucket has a digest that is kept up with every write and stands in the same transaction. The pool reads one
 * bucket at a time, in one read transaction, and compares; then it rests for 20 times as long as that took, and for
 * half a second at least: at most a twentieth of one core, a small state is through in 20 s. A difference is damage, by
 * a disk, by memory or by us. The node stops at once with the bucket named, and the file is not believed any more: the
 * next start rebuilds it from a snapshot and the log. Snapshots are compared in the same way before they count, so
 * damage is not copied into what is there to mend it. */
#include "node/node_internal.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

#define REST_MIN_MS 500
#define REST_FACTOR 20

void node_found_damage(struct node *n, const char *where, const char *what)
{
	struct err e = { 0 };
	if (atomic_exchange(&n->scrub.taken, true))
		return; /* the first to find it says it */
	snprintf(n->scrub.reason, sizeof(n->scrub.reason), "%.40s: %.200s", where, what);
	if (store_distrust(fsm_store(n->fsm), &e) != 0)
		log_error("scrub.mark_not_removed", "error=\"%s\" remedy=\"remove fsm.mark by hand\"", e.msg);
	log_error("metastore: stopped, fsm.mdb is damaged",
	          "where=\"%s\" reason=\"%s\" remedy=\"look at disk and memory, then start again: it is rebuilt\"",
	          where, what);
	atomic_store_explicit(&n->scrub.failed, true, memory_order_release);
	wake_signal(&n->wake);
}

static void run_scrub_job(struct job *j)
{
	struct node_scrub *s = CONTAINER_OF(j, struct node_scrub, job);
	struct node *n = s->node;
	struct store_txn *txn;
	struct err e = { 0 };
	const uint64_t begun = clock_mono_ms();
	int rc = fsm_read(&s->reader, &txn, &e);
	if (rc == 0) {
		rc = fsm_scrub(txn, s->db, &e);
		if (rc == ERR_CORRUPT)
			node_found_damage(n, STORE_FILE, e.msg);
		else if (rc != 0)
			log_warn("scrub.unread", "bucket=%s error=\"%s\"", store_db_name(s->db), e.msg);
	}
	fsm_read_end(&s->reader);
	s->took_ms = clock_mono_ms() - begun;
	s->advance = rc == 0; /* a bucket that could not be read is tried again */
	atomic_store_explicit(&s->busy, false, memory_order_release);
	wake_signal(&n->wake);
}

static void take_end(struct node *n)
{
	struct node_scrub *s = &n->scrub;
	const uint64_t rest = REST_FACTOR * s->took_ms;
	s->pending = false;
	s->next_ms = n->now + (rest > REST_MIN_MS ? rest : REST_MIN_MS);
	if (!s->advance)
		return;
	s->db = (enum store_db)((s->db + 1) % STORE_DB_COUNT);
	if (s->db == 0)
		s->rounds++;
}

uint64_t node_scrub_turn(struct node *n)
{
	struct node_scrub *s = &n->scrub;
	if (atomic_load_explicit(&s->failed, memory_order_acquire)) {
		node_mark_stopped(n, s->reason);
		return UINT64_MAX;
	}
	if (!n->o.scrub || atomic_load_explicit(&s->busy, memory_order_acquire))
		return UINT64_MAX; /* its end wakes us */
	if (s->pending)
		take_end(n);
	else if (s->next_ms == 0)
		s->next_ms = n->now + REST_MIN_MS;
	if (n->now < s->next_ms)
		return s->next_ms;
	s->node = n;
	s->job.run = run_scrub_job;
	s->pending = true;
	atomic_store_explicit(&s->busy, true, memory_order_relaxed);
	pool_submit(n->pool, &s->job);
	return UINT64_MAX;
}
