/* The apply thread's turn: committed entries into fsm.mdb, answers to whoever proposed them.
 *
 * Good path: what consensus handed out is gathered into one transaction's worth, applied, and only then answered; then
 * watchers wake, consensus learns the new applied index, and if a member changed, what the servers report.
 * How it fails: a disk that refuses is tried again for 30 s (100 ms doubling to 5 s) while the thread stays free to
 * end; then, and at once for an entry this build does not know, the node stops applying. The entry does not count as
 * applied, so a restart meets it again. What was in hand is answered "outcome unknown": it is committed, others will
 * apply it. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fsm/changes.h"

#define RETRY_FIRST_MS 100
#define RETRY_LONGEST_MS 5000
#define RETRY_TOTAL_MS 30000
#define OLD_READER_MS 50  /* a reader older than this keeps pages alive ... */
#define PACED_COMMIT_MS 5 /* ... so commits are spaced, else the file grows manyfold */
#define SYNC_EVERY_MS 1000

/* ---- consensus thread ---- */

void node_apply_hand_out(struct node *n, const struct entry *committed, size_t count)
{
	struct node_apply_batch *b = mem_alloc(sizeof(*b) + count * sizeof(b->items[0]));
	b->next = NULL;
	b->count = count;
	for (size_t i = 0; i < count; i++) {
		b->items[i].entry = committed[i];
		entry_ref(&committed[i]);
		b->items[i].reply = node_pending_take(n, committed[i].index);
	}
	const bool put = queue_put(n->apply_in, &b);
	assert(put); /* raft hands out at most as many entries as there are slots */
}

void node_apply_drain(struct node *n)
{
	/* An image that was just put in place holds more than raft has handed out, until raft is told of it. */
	const raft_index held = fsm_applied_index(n->fsm);
	const raft_index applied = held < n->view.handed_index ? held : n->view.handed_index;
	if (applied > n->applied_told) {
		n->applied_told = applied;
		raft_applied(n->raft, applied);
	}
	node_gate_take_reports(n);
	if (atomic_load_explicit(&n->apply_failed, memory_order_acquire))
		node_mark_stopped(n, n->apply_reason);
	if (atomic_load_explicit(&n->sync_failed, memory_order_acquire))
		node_mark_stopped(n, n->sync_reason);
}

static void run_sync_job(struct job *j)
{
	struct node_sync_job *s = CONTAINER_OF(j, struct node_sync_job, job);
	struct node *n = s->node;
	struct err e = { 0 };
	if (store_sync(fsm_store(n->fsm), &e) != 0) {
		snprintf(n->sync_reason, sizeof(n->sync_reason), "fsm.mdb: %.200s", e.msg);
		atomic_store_explicit(&n->sync_failed, true, memory_order_release);
		log_error("metastore: stopped, fsm.mdb could not be synced",
		          "reason=\"%s\" remedy=\"mend the disk, then start again\"", e.msg);
	}
	atomic_store_explicit(&s->busy, false, memory_order_release);
	wake_signal(&n->wake);
}

/* Not for safety, which is the log's: for a short rebuild after the kernel was killed under a clean file. */
static void sync_in_turn(struct node *n)
{
	struct node_sync_job *s = &n->sync;
	if (n->o.sync_fsm || n->now < s->next_ms || n->applied_told == s->last_applied ||
	    atomic_load_explicit(&s->busy, memory_order_acquire))
		return;
	s->next_ms = n->now + SYNC_EVERY_MS;
	s->last_applied = n->applied_told;
	s->node = n;
	s->job.run = run_sync_job;
	atomic_store_explicit(&s->busy, true, memory_order_relaxed);
	pool_submit(n->pool, &s->job);
}

uint64_t node_apply_timers(struct node *n)
{
	uint64_t next = UINT64_MAX;
	const uint64_t due = atomic_load_explicit(&n->apply_due_ms, memory_order_acquire);
	if (due != 0 && due <= n->now)
		wake_signal(&n->apply_wake);
	else if (due != 0)
		next = due;
	sync_in_turn(n);
	if (!n->o.sync_fsm && n->applied_told != n->sync.last_applied && n->sync.next_ms > n->now)
		next = node_sooner(next, n->sync.next_ms);
	return next;
}

/* ---- apply thread: what the servers report ---- */

static int report_cmp(struct str a, const char *b)
{
	return str_cmp(a, str_of(b));
}

/* Does the row say what the options say? An operator's cordon is not this server's word and stays as it is. */
static bool is_own_extra_set(const struct node *n, const struct fsm_member *m)
{
	if (m->offers != n->o.own_partitions)
		return false;
	struct arena a = { 0 };
	struct str_map stored;
	bool same = node_tags_parse(m->tags, &a, &stored, NULL) == 0 && stored.count == n->tags.count;
	for (size_t i = 0; same && i < stored.count; i++)
		same = str_eq(stored.items[i].key, n->tags.items[i].key) &&
		       str_eq(stored.items[i].value, n->tags.items[i].value);
	arena_fini(&a);
	return same;
}

static struct node_reports *make_reports(const struct node *n, const struct fsm_members *members)
{
	struct node_reports *r = mem_zalloc(sizeof(*r) + members->count * sizeof(r->rows[0]));
	r->room = members->count;
	for (size_t i = 0; i < members->count; i++) {
		const struct fsm_member *m = &members->rows[i];
		/* Imported with an address between servers: it was a server of another cluster, and may be one here. */
		const bool imported = m->kind != FSM_KIND_SERVER && m->cluster_addr.len > 0;
		const bool broker = m->kind != FSM_KIND_SERVER && !imported;
		if (!broker && report_cmp(m->id, n->o.id) == 0) {
			r->own_row = true;
			r->own_extra_set = !imported && is_own_extra_set(n, m);
		}
		if (imported || m->id.len > RAFT_NAME_MAX)
			continue;
		struct node_report *row = broker ? &r->rows[r->room - ++r->broker_count] : &r->rows[r->count++];
		memcpy(row->name, m->id.p, m->id.len);
		row->name[m->id.len] = '\0';
		if (broker)
			continue;
		snprintf(row->build, sizeof(row->build), STR_FMT, STR_ARG(m->build));
		row->entry_types = m->entry_types ? m->entry_types : COMMAND_LEGACY_MAX;
		row->row = !m->alive ? NODE_ROW_DEAD : m->draining ? NODE_ROW_DRAINING : NODE_ROW_ALIVE;
	}
	return r;
}

static int send_reports(struct node *n, struct err *e)
{
	struct node_apply_side *a = &n->apply;
	const raft_index version = fsm_domain_version(n->fsm, FSM_DOMAIN_MEMBERS);
	if (version == a->members_seen)
		return 0;
	struct store_txn *txn;
	const struct fsm_members *members;
	struct fsm_applied applied;
	int rc = fsm_read(&a->reader, &txn, e);
	if (rc == 0)
		rc = fsm_reader_members(&a->reader, &members, e);
	if (rc == 0 && fsm_get_applied(txn, &applied) != 0)
		rc = err_set(e, ERR_CORRUPT, "%s", store_txn_error(txn)->msg);
	if (rc == 0) {
		/* At the start, and after an image replaced everything. */
		if (applied.max_entry_type > atomic_load_explicit(&n->applied_type, memory_order_relaxed))
			atomic_store_explicit(&n->applied_type, applied.max_entry_type, memory_order_relaxed);
		mem_free(atomic_exchange_explicit(&n->new_reports, make_reports(n, members), memory_order_acq_rel));
		a->members_seen = version;
	}
	fsm_read_end(&a->reader);
	return rc;
}

int node_apply_open(struct node *n, struct err *e)
{
	n->apply.members_seen = UINT64_MAX; /* no version is: report even if there are no members */
	fsm_reader_init(&n->apply.reader, n->fsm);
	return send_reports(n, e);
}

/* ---- apply thread: the turn ---- */

static void want_turn_at(struct node *n, uint64_t ms)
{
	atomic_store_explicit(&n->apply_due_ms, ms, memory_order_release);
	if (ms != 0)
		wake_signal(&n->wake); /* its deadline moves */
}

static void take_queued(struct node *n)
{
	struct node_apply_side *a = &n->apply;
	struct node_apply_batch *b;
	while (queue_take(n->apply_in, &b)) {
		b->next = NULL;
		if (a->last)
			a->last->next = b;
		else
			a->first = b;
		a->last = b;
	}
}

static size_t gather(struct node_apply_side *a)
{
	size_t count = 0;
	size_t bytes = 0;
	size_t at = a->done;
	for (const struct node_apply_batch *b = a->first; b; b = b->next, at = 0) {
		for (; at < b->count; at++) {
			const struct entry *e = &b->items[at].entry;
			if (count == FSM_BATCH_ENTRIES_MAX || (count > 0 && bytes + e->len > FSM_BATCH_BYTES_MAX))
				return count;
			a->entries[count++] = *e;
			bytes += e->len;
		}
	}
	return count;
}

/* Drops the first item. With `result` NULL nobody knows what becomes of it. */
static void finish_one(struct node_apply_side *a, const struct fsm_result *result)
{
	struct node_apply_batch *b = a->first;
	struct node_apply_item *it = &b->items[a->done];
	if (result)
		node_answer(&it->reply, result->refusal, it->entry.index, result->command);
	else
		node_answer(&it->reply, ERR_CLOSED, it->entry.index, 0);
	entry_unref(&it->entry);
	if (++a->done < b->count)
		return;
	a->first = b->next;
	if (!a->first)
		a->last = NULL;
	a->done = 0;
	mem_free(b);
}

static void wake_watchers(struct node *n, raft_index applied)
{
	for (size_t i = 0; i < n->watcher_count; i++) {
		struct node_watcher *w = n->watchers[i];
		raft_index want = atomic_load(&w->want);
		if (want != 0 && want <= applied && atomic_compare_exchange_strong(&w->want, &want, 0))
			wake_signal(w->wake);
	}
}

static void stop_applying(struct node *n, const struct err *e)
{
	struct node_apply_side *a = &n->apply;
	const struct entry *failed = &a->first->items[a->done].entry;
	a->stopped = true;
	snprintf(n->apply_reason, sizeof(n->apply_reason), "index %" PRIu64 ": %.200s", failed->index, e->msg);
	log_error("metastore: stopped applying raft entries",
	          "index=%" PRIu64 " type=%u build=%s reason=\"%s\" remedy=\"%s\"", failed->index,
	          failed->kind == ENTRY_COMMAND ? entry_max_type(failed->data, failed->len) : 0, n->o.build, e->msg,
	          e->code == ERR_VERSION ? "start the release the cluster runs" : "mend the disk, then start again");
	atomic_store_explicit(&n->apply_failed, true, memory_order_release);
	want_turn_at(n, 0); /* what is in hand is answered by the next turn, which finds the thread stopped */
	wake_signal(&n->wake);
}

/* Says when to try again, or stops. */
static void apply_failed(struct node *n, const struct err *e, uint64_t now)
{
	struct node_apply_side *a = &n->apply;
	const raft_index index = a->first->items[a->done].entry.index;
	if (e->code != ERR_IO && e->code != ERR_FULL) {
		stop_applying(n, e);
		return;
	}
	if (a->retry_delay_ms == 0) {
		a->failing_since_ms = now;
		a->retry_delay_ms = RETRY_FIRST_MS;
		log_warn("metastore: could not write raft entry; retrying", "index=%" PRIu64 " error=\"%s\"", index,
		         e->msg);
	} else {
		a->retry_delay_ms = node_sooner(2 * a->retry_delay_ms, RETRY_LONGEST_MS);
	}
	if (now + a->retry_delay_ms > a->failing_since_ms + RETRY_TOTAL_MS) {
		stop_applying(n, e);
		return;
	}
	want_turn_at(n, now + a->retry_delay_ms);
}

static void apply_succeeded(struct node *n, uint64_t now)
{
	struct node_apply_side *a = &n->apply;
	if (a->retry_delay_ms != 0)
		log_info("metastore: raft entry written after retrying", "index=%" PRIu64 " after_ms=%" PRIu64,
		         fsm_applied_index(n->fsm), now - a->failing_since_ms);
	a->retry_delay_ms = 0;
	want_turn_at(n, 0);
}

/* Is it too early for a commit? Then a turn at the right time is asked for. */
static bool must_wait(struct node *n, uint64_t now)
{
	const uint64_t due = atomic_load_explicit(&n->apply_due_ms, memory_order_relaxed);
	if (n->apply.retry_delay_ms != 0 && now < due)
		return true;
	const uint64_t paced = n->apply.last_commit_ms + PACED_COMMIT_MS;
	if (now >= paced || fsm_oldest_read_ms(n->fsm, now) <= OLD_READER_MS)
		return false;
	if (due != paced)
		want_turn_at(n, paced);
	return true;
}

/* What a server that joins must be able to read. */
static void note_type(struct node *n, const struct entry *e)
{
	const uint32_t type = e->kind == ENTRY_COMMAND ? entry_max_type(e->data, e->len) : 0;
	if (type > atomic_load_explicit(&n->applied_type, memory_order_relaxed))
		atomic_store_explicit(&n->applied_type, type, memory_order_relaxed);
}

/* Every node consumes it and none does anything: nothing depends on it, but somebody wrote it. */
static void note_undecodable(struct node *n, const struct entry *e)
{
	atomic_fetch_add_explicit(&n->undecodable, 1, memory_order_relaxed);
	log_error("metastore: raft entry does not decode; consumed without effect",
	          "index=%" PRIu64 " term=%" PRIu64 " bytes=%" PRIu32 " remedy=\"report it\"", e->index, e->term,
	          e->len);
}

static void tell_applied(struct node *n, raft_index applied)
{
	struct err e;
	wake_watchers(n, applied);
	if (send_reports(n, &e) != 0) /* the next batch tries again: its version is still unseen */
		log_warn("apply.members_unread", "error=\"%s\"", e.msg);
	wake_signal(&n->wake);
}

/* After a commit that broke the store. It may have come through all the same: then its entries are not applied again,
 * and what became of each is not known any more. */
static int mend(struct node *n, struct err *e)
{
	struct node_apply_side *a = &n->apply;
	const int rc = fsm_mend(n->fsm, e);
	if (rc != 0)
		return rc == ERR_FULL ? rc : ERR_IO; /* whatever it was: tried again */
	while (a->first && a->first->items[a->done].entry.index <= fsm_applied_index(n->fsm))
		finish_one(a, NULL);
	tell_applied(n, fsm_applied_index(n->fsm));
	return 0;
}

/* One try, mended at once if it broke the store, so that reads go on meanwhile. The entries are one transaction: all of
 * them came through or none, and then the results are those of the failed try. */
static int try_apply(struct node *n, size_t count, struct err *e)
{
	struct node_apply_side *a = &n->apply;
	struct err again = { 0 };
	const int rc = fsm_apply(n->fsm, a->entries, count, a->results, e);
	if (rc == 0 || !store_is_broken(fsm_store(n->fsm)))
		return rc;
	if (fsm_mend(n->fsm, &again) != 0) {
		log_warn("apply.not_mended", "error=\"%s\"", again.msg);
		return rc;
	}
	return fsm_applied_index(n->fsm) >= a->entries[count - 1].index ? 0 : rc;
}

static void apply_some(struct node *n, uint64_t now)
{
	struct node_apply_side *a = &n->apply;
	struct err e = { 0 };
	int rc = store_is_broken(fsm_store(n->fsm)) ? mend(n, &e) : 0;
	if (rc != 0) {
		e.code = rc;
		apply_failed(n, &e, now);
		return;
	}
	const size_t count = gather(a);
	rc = count > 0 ? try_apply(n, count, &e) : 0;
	const raft_index applied = fsm_applied_index(n->fsm);
	a->last_commit_ms = now;
	size_t finished = 0;
	while (finished < count && a->entries[finished].index <= applied) {
		note_type(n, &a->entries[finished]);
		if (a->results[finished].refusal == FSM_UNDECODABLE)
			note_undecodable(n, &a->entries[finished]);
		finish_one(a, &a->results[finished++]);
	}
	if (finished > 0)
		tell_applied(n, applied);
	if (rc == 0) {
		assert(finished == count);
		apply_succeeded(n, now);
	} else {
		assert(finished < count);
		e.code = rc;
		apply_failed(n, &e, now);
	}
}

/* Another file takes fsm.mdb's place once everything handed out before it is applied: whoever proposed any of that
 * gets an answer. */
static bool switch_file(struct node *n)
{
	if (!node_install_may_switch(n))
		return false;
	if (n->apply.stopped) {
		node_install_refuse(n);
		return true;
	}
	const uint64_t again_ms = node_install_switch(n, clock_mono_ms());
	if (again_ms != 0) {
		if (atomic_load_explicit(&n->apply_due_ms, memory_order_relaxed) != again_ms)
			want_turn_at(n, again_ms);
		return false;
	}
	want_turn_at(n, 0);
	if (store_is_open(fsm_store(n->fsm)))
		tell_applied(n, fsm_applied_index(n->fsm));
	return true;
}

bool node_apply_turn(struct node *n)
{
	struct node_apply_side *a = &n->apply;
	take_queued(n);
	if (!a->first)
		return switch_file(n);
	if (a->stopped) {
		while (a->first)
			finish_one(a, NULL);
		return true;
	}
	const uint64_t now = clock_mono_ms();
	if (must_wait(n, now))
		return false;
	apply_some(n, now);
	return true;
}

void node_apply_discard(struct node *n)
{
	struct node_apply_side *a = &n->apply;
	take_queued(n);
	while (a->first) {
		a->first->items[a->done].reply.queue = NULL; /* whoever waited has ended before the node */
		finish_one(a, NULL);
	}
	fsm_reader_fini(&a->reader);
	mem_free(atomic_exchange(&n->new_reports, NULL));
}
