/* Taking snapshots of this node's own state, and what follows from one.
 *
 * Good path: once enough entries were applied since the last one, a job of the pool copies fsm.mdb to a temporary file
 * while applying goes on, reads back from the copy what it holds, seals it (snapshots.h) and renames it into
 * snapshots/. Then raft is told, the log is cut behind the older of the files kept, and files nobody needs go.
 * How it fails: a copy that cannot be made (a full disk) is said in one line, counted, and tried again at the next
 * look; its temporary file goes. The log grows meanwhile, nothing else suffers. Room is looked at before a byte is
 * written: the log and the state need the last of it more.
 *
 * The label cannot lie: index, term, configuration and digest come from the image. And an image is never ahead of what
 * was handed to apply, since only committed entries that are durable in this node's log are. */
#include "node/node_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

#define DEFAULT_ENTRIES 8192
#define DEFAULT_INTERVAL_S 120
#define DEFAULT_KEPT 2

/* ---- pool ---- */

void node_snapshot_temp(const struct node *n, char out[SNAPFILE_PATH_MAX])
{
	uint64_t number;
	char hex[HEX64_SIZE];
	rand_secure(&number, sizeof(number));
	hex64(hex, number);
	snprintf(out, SNAPFILE_PATH_MAX, "%s/" SNAPFILE_TEMP_PREFIX "%s", n->o.data_dir, hex);
}

static int copy(struct node *n, const char *temp, struct err *e)
{
	const int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set_errno(e, errno == ENOSPC ? ERR_FULL : ERR_IO, errno, "could not create %s", temp);
	int rc = store_copy(fsm_store(n->fsm), fd, e);
	if (close(fd) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not close %s", temp);
	return rc;
}

/* What the image says of itself becomes the label. */
static int describe(struct node *n, const char *temp, struct snapfile_info *info, struct err *e)
{
	struct fsm_image image;
	int rc = fsm_read_image(temp, n->o.max_entry_type, &image, e);
	if (rc)
		return rc;
	if (image.index == 0 || image.conf_len == 0)
		return err_set(e, ERR_NOTFOUND, "nothing was applied yet");
	rc = raft_conf_decode(image.conf, image.conf_len, &info->conf, e);
	info->index = image.index;
	info->term = image.term;
	info->digest = image.digest;
	info->max_entry_type = image.max_entry_type;
	/* Entries are seen here before they are applied, so this is no earlier than any in the image. */
	info->time_ms = atomic_load_explicit(&n->last_time_ms, memory_order_relaxed);
	if (SIM_FAULT("snapshot-wrong-index")) {
		struct node_status now;
		node_get_status(n, &now);
		info->index = now.handed_index;
	}
	return rc;
}

static int take(struct node *n, struct snapfile_info *info, struct err *e)
{
	char temp[SNAPFILE_PATH_MAX];
	struct store_space space;
	store_get_space(fsm_store(n->fsm), &space);
	int rc = snapfile_check_room(n->o.data_dir, space.file_bytes, NODE_ROOM_RESERVE, e);
	if (rc)
		return rc;
	node_snapshot_temp(n, temp);
	rc = copy(n, temp, e);
	if (rc == 0) {
		rc = fsm_scrub_image(temp, e);
		if (rc == ERR_CORRUPT)
			node_found_damage(n, "copy of " STORE_FILE, e->msg);
	}
	if (rc == 0)
		rc = describe(n, temp, info, e);
	if (rc == 0)
		rc = snapfile_seal(temp, info, e);
	if (rc == 0)
		rc = snapfile_publish(n->o.data_dir, temp, info, e);
	if (rc)
		unlink(temp); /* what could not be removed is removed at the next start */
	return rc;
}

static void run_take_job(struct job *j)
{
	struct node_take *t = CONTAINER_OF(j, struct node_take, job);
	struct node *n = t->node;
	t->why = (struct err){ 0 };
	t->status = take(n, &t->info, &t->why);
	t->ended_ms = clock_mono_ms();
	atomic_store_explicit(&t->busy, false, memory_order_release);
	wake_signal(&n->wake);
}

static void run_prune_job(struct job *j)
{
	struct node_prune *p = CONTAINER_OF(j, struct node_prune, job);
	struct node *n = p->node;
	for (size_t i = 0; i < p->count; i++) {
		char path[SNAPFILE_PATH_MAX];
		snapfile_path(n->o.data_dir, p->victims[i].index, p->victims[i].term, path);
		if (unlink(path) != 0 && errno != ENOENT)
			log_warn("snapshot.not_removed", "file=%s error=\"%s\"", path, strerror(errno));
	}
	atomic_store_explicit(&p->busy, false, memory_order_release);
	wake_signal(&n->wake);
}

/* ---- consensus thread: asking ---- */

static void answer_all(struct node_reply_list *l, int code, raft_index index, uint64_t bytes)
{
	for (size_t i = 0; i < l->count; i++)
		node_answer(&l->v[i], code, index, bytes);
	l->count = 0;
}

static void drain_asks(struct node *n)
{
	struct node_reply_list *l = &n->snap.asking;
	while (l->count < NODE_ASK_SLOTS && queue_take(n->snapshot_asks, &l->v[l->count]))
		l->count++;
}

void node_snapshot_refuse(struct node *n, int code)
{
	drain_asks(n);
	answer_all(&n->snap.asking, code, 0, 0);
	answer_all(&n->snap.waiting, code, 0, 0);
}

/* ---- consensus thread: taking ---- */

/* A file whose index is all that was applied: another copy would be the same. */
static const struct snapfile *current_file(const struct node *n)
{
	const struct snapfile *f = snapfiles_good(&n->snap.files, 0);
	return f && f->index == n->applied_told ? f : NULL;
}

static bool is_due(const struct node *n)
{
	const struct node_snapshot_side *s = &n->snap;
	if (n->applied_told == 0 || current_file(n))
		return false;
	return s->wanted || n->applied_told >= s->counted_from + n->o.snapshot_entries;
}

static void begin_take(struct node *n)
{
	struct node_snapshot_side *s = &n->snap;
	struct node_take *t = &s->take;
	s->waiting = s->asking;
	s->asking.count = 0;
	t->running = true;
	t->begun_ms = n->now;
	t->node = n;
	t->info = (struct snapfile_info){ .cluster_id = n->self.cluster_id };
	t->job.run = run_take_job;
	atomic_store_explicit(&t->busy, true, memory_order_relaxed);
	s->shown.running = true;
	pool_submit(n->pool, &t->job);
}

static void take_in_turn(struct node *n)
{
	struct node_snapshot_side *s = &n->snap;
	const bool look = n->now >= s->next_look_ms;
	if (look)
		s->next_look_ms = n->now + 1000ull * n->o.snapshot_interval_s;
	s->look_due |= look;
	/* While another file is put in fsm.mdb's place there is nothing to copy; its end is a turn. */
	if (s->take.running || node_install_is_switching(n))
		return;
	const struct snapfile *f = current_file(n);
	if (s->asking.count > 0 && n->applied_told == 0)
		answer_all(&s->asking, ERR_NOTFOUND, 0, 0);
	else if (s->asking.count > 0 && f)
		answer_all(&s->asking, 0, f->index, f->bytes);
	const bool due = s->look_due && is_due(n);
	if (due || !s->wanted) /* one that is wanted waits for something to take it of, not for the next look */
		s->look_due = false;
	if (s->asking.count > 0 || due)
		begin_take(n);
}

/* ---- consensus thread: what follows ---- */

/* The log must reach back to the older of the files kept: the newer one may turn out damaged. */
static raft_index compact_to(const struct node *n)
{
	const struct snapfile *f = snapfiles_good(&n->snap.files, n->o.snapshots_kept - 1);
	return f ? f->index : 0;
}

void node_snapshot_note(struct node *n, const struct snapfile_info *info)
{
	struct node_snapshot_side *s = &n->snap;
	const struct snapfile f = {
		.index = info->index, .term = info->term, .bytes = info->file_len, .verified = true
	};
	snapfiles_put(&s->files, &f);
	if (info->index > s->counted_from)
		s->counted_from = info->index;
	node_snapshot_show(n);
}

void node_snapshot_show(struct node *n)
{
	const struct snapfile *f = snapfiles_good(&n->snap.files, 0);
	n->snap.shown.index = f ? f->index : 0;
	n->snap.shown.term = f ? f->term : 0;
	n->snap.shown.bytes = f ? f->bytes : 0;
}

static void take_failed(struct node *n)
{
	struct node_snapshot_side *s = &n->snap;
	const struct node_take *t = &s->take;
	s->shown.failures++;
	log_error("metastore: could not copy the database for a raft snapshot",
	          "applied=%" PRIu64 " next_look_s=%" PRIu32 " reason=\"%s\"", n->applied_told,
	          n->o.snapshot_interval_s, t->why.msg);
	answer_all(&s->waiting, t->status, 0, 0);
}

static void take_succeeded(struct node *n)
{
	struct node_snapshot_side *s = &n->snap;
	const struct node_take *t = &s->take;
	const struct snapfile_info *info = &t->info;
	assert(info->index <= n->view.handed_index); /* only what raft handed out was applied */
	node_snapshot_note(n, info);
	raft_snapshot_taken(n->raft, info->index, info->term, &info->conf, compact_to(n));
	s->wanted = false;
	s->shown.taken++;
	s->shown.last_ms = t->ended_ms - t->begun_ms;
	s->shown.last_at_ms = t->ended_ms;
	log_info("snapshot.taken", "index=%" PRIu64 " term=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64, info->index,
	         info->term, info->file_len, s->shown.last_ms);
	answer_all(&s->waiting, 0, info->index, info->file_len);
}

static void finish_take(struct node *n)
{
	struct node_take *t = &n->snap.take;
	if (!t->running || atomic_load_explicit(&t->busy, memory_order_acquire))
		return;
	/* The copy may have seen a commit that apply has not published yet; it is about to, and wakes this thread. */
	if (t->status == 0 && t->info.index > n->applied_told)
		return;
	t->running = false;
	n->snap.shown.running = false;
	if (t->status == 0)
		take_succeeded(n);
	else
		take_failed(n);
}

/* Files below raft_view.first_index are no longer asked for by anybody; the log thread removes them. */
static void compact(struct node *n)
{
	const raft_index upto = n->view.first_index > 0 ? n->view.first_index - 1 : 0;
	if (upto <= atomic_load_explicit(&n->compact_upto, memory_order_relaxed))
		return;
	atomic_store_explicit(&n->compact_upto, upto, memory_order_release);
	wake_signal(&n->log_wake);
}

static bool is_in_use(const struct node *n, const struct snapfile *f)
{
	if (f->index == n->view.snapshot_index)
		return true;
	for (size_t i = 0; i < n->view.peer_count; i++) {
		if (n->view.peers[i].image == f->index)
			return true;
	}
	return false;
}

/* Older than those kept; a damaged one goes as soon as there are as many good ones as are kept. */
static bool is_needless(const struct node *n, const struct snapfile *f)
{
	const struct snapfile *newest = snapfiles_good(&n->snap.files, 0);
	const struct snapfile *oldest = snapfiles_good(&n->snap.files, n->o.snapshots_kept - 1);
	if (!oldest || is_in_use(n, f))
		return false;
	return f->index < oldest->index || (f->damaged && f->index <= newest->index);
}

static void prune(struct node *n)
{
	struct node_snapshot_side *s = &n->snap;
	struct node_prune *p = &s->prune;
	/* Not while a job lists, makes or renames files: one of them at a time knows the directory. */
	if (atomic_load_explicit(&p->busy, memory_order_acquire) || s->take.running || node_install_is_busy(n))
		return;
	p->count = 0;
	for (size_t i = s->files.count; i > 0 && p->count < NODE_PRUNE_MAX; i--) {
		if (is_needless(n, &s->files.v[i - 1])) {
			p->victims[p->count++] = s->files.v[i - 1];
			snapfiles_drop(&s->files, i - 1);
		}
	}
	if (p->count == 0)
		return;
	p->node = n;
	p->job.run = run_prune_job;
	atomic_store_explicit(&p->busy, true, memory_order_relaxed);
	pool_submit(n->pool, &p->job);
}

void node_snapshot_drain(struct node *n)
{
	finish_take(n);
}

uint64_t node_snapshot_turn(struct node *n)
{
	drain_asks(n);
	take_in_turn(n);
	compact(n);
	prune(n);
	return n->snap.next_look_ms;
}

void node_snapshot_want(struct node *n)
{
	n->snap.wanted = true;
	n->snap.look_due = true;
}

void node_snapshot_defaults(struct node_options *o)
{
	if (o->snapshot_entries == 0)
		o->snapshot_entries = DEFAULT_ENTRIES;
	if (o->snapshot_interval_s == 0)
		o->snapshot_interval_s = DEFAULT_INTERVAL_S;
	if (o->snapshots_kept == 0)
		o->snapshots_kept = DEFAULT_KEPT;
	if (o->chunk_bytes == 0)
		o->chunk_bytes = NODE_CHUNK_BYTES;
}

/* The first look comes after a part of the interval drawn by chance, so that servers that were started together do not
 * copy at the same moment; at once if the log stands on no file. */
void node_snapshot_open(struct node *n, const struct node_found *f)
{
	struct node_snapshot_side *s = &n->snap;
	const struct snapfile *newest = snapfiles_good(&s->files, 0);
	uint64_t draw;
	rand_secure(&draw, sizeof(draw));
	s->next_look_ms = n->now + 1 + draw % (1000ull * n->o.snapshot_interval_s);
	s->counted_from = newest ? newest->index : f->base.index;
	if ((f->base.index > 0 && !f->base_is_file) || (s->files.count > 0 && s->files.v[0].damaged))
		node_snapshot_want(n);
	node_snapshot_show(n);
}

/* ---- any thread ---- */

bool node_ask_snapshot(struct node *n, struct node_reply_to reply)
{
	return queue_put(n->snapshot_asks, &reply);
}
