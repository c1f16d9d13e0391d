/* Taking in an image from the leader: chunk after chunk into fsm.restore on the pool, then into fsm.mdb's place on the
 * apply thread. Raft hands over one chunk at a time and waits for its answer, so there is never more than one here.
 *
 *   IDLE --chunk--> WRITING --written, or refused--> DONE --told raft--> IDLE       consensus, pool, consensus
 *                      |  last chunk, and all of it verified                ^
 *                      +-----------> SWITCHING --fsm_replace--> DONE -------+       apply thread, once its queue is dry
 *
 * After the last chunk:
 *
 *   1. sync fsm.restore; compare lengths, label and CRC; open it read-only: is it what it is said to be, and of entry
 *      types this build knows?
 *   2. copy it to snapshots/, synced, under its name: from here on every start comes up with this image, wholly
 *   3. fsm_replace: fsm.restore becomes fsm.mdb
 *   4. raft is told, and has the log begin anew behind it where the log does not agree
 *
 * A crash before 2 leaves the old state; after it, what is missing is made up at the start (recover.c): fsm.mdb is
 * behind the newest snapshot and replaced by it, the log ends before it and is begun anew. The log never begins behind
 * an index that no file of this node reaches.
 * How it fails: a chunk that cannot be written and an image that does not verify are refused, the sender begins anew,
 * fsm.mdb is as it was. Newer entry types stop the node (a restart of this build would meet them again). */
#include "node/node_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/mark.h"

#define SYNC_EVERY (4u << 20) /* bytes: spread, so that the last sync does not make the log's wait */
#define IDLE_MAX_MS 60000     /* no chunk for so long: its sender is gone, and the room is better free */
#define SWITCH_TRIES 15       /* each waits up to 2 s for readers to end their turns */
#define SWITCH_RETRY_MS 100
#define REFUSED_QUIET_MS 10000

static void restore_path(const struct node *n, char out[SNAPFILE_PATH_MAX])
{
	snprintf(out, SNAPFILE_PATH_MAX, "%s/" STORE_RESTORE_FILE, n->o.data_dir);
}

static void set_phase(struct node_install *in, enum node_install_phase phase)
{
	atomic_store_explicit(&in->phase, phase, memory_order_release);
}

static enum node_install_phase phase_of(const struct node_install *in)
{
	return atomic_load_explicit(&in->phase, memory_order_acquire);
}

/* ---- pool: chunks ---- */

static void close_file(struct node_install *in)
{
	if (in->fd >= 0)
		close(in->fd); /* what had to be on disk was synced, or the file is thrown away */
	in->fd = -1;
}

static void throw_away(struct node *n)
{
	char path[SNAPFILE_PATH_MAX];
	restore_path(n, path);
	close_file(&n->install);
	unlink(path); /* what could not be removed is removed at the next start */
}

static int begin_file(struct node *n, struct node_install *in, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	restore_path(n, path);
	close_file(in);
	/* Twice: as fsm.mdb and as a snapshot. */
	int rc = snapfile_check_room(n->o.data_dir, 2 * in->size, NODE_ROOM_RESERVE, e);
	if (rc)
		return rc;
	in->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (in->fd < 0)
		rc = err_set_errno(e, errno == ENOSPC ? ERR_FULL : ERR_IO, errno, "could not create %s", path);
	return rc;
}

static int write_chunk(struct node_install *in, struct err *e)
{
	const uint8_t *p = in->data;
	size_t left = in->data_len;
	uint64_t at = in->offset;
	while (left > 0) {
		const ssize_t n = pwrite(in->fd, p, left, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			const int errnum = n < 0 ? errno : ENOSPC;
			return err_set_errno(e, errnum == ENOSPC ? ERR_FULL : ERR_IO, errnum,
			                     "could not write " STORE_RESTORE_FILE);
		}
		p += n;
		at += (uint64_t)n;
		left -= (size_t)n;
	}
	const bool sync = in->last || in->offset / SYNC_EVERY != at / SYNC_EVERY;
	if (sync && fsync(in->fd) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not sync " STORE_RESTORE_FILE);
	return 0;
}

/* ---- pool: the whole ---- */

static int check_label(const struct node *n, const struct node_install *in, struct err *e)
{
	const struct snapfile_info *i = &in->info;
	if (i->file_len != in->size || i->index != in->index || i->term != in->term)
		return err_set(e, ERR_CORRUPT,
		               "an image of index %" PRIu64 ", term %" PRIu64 ", %" PRIu64
		               " bytes was sent as one of %" PRIu64 ", %" PRIu64 ", %" PRIu64,
		               i->index, i->term, i->file_len, in->index, in->term, in->size);
	if (i->cluster_id != in->cluster_id)
		return err_set(e, ERR_IDENTITY, "an image of cluster %016" PRIx64 " was sent in cluster %016" PRIx64,
		               i->cluster_id, in->cluster_id);
	if (i->max_entry_type > n->o.max_entry_type)
		return err_set(e, ERR_VERSION,
		               "the image holds entries of type %" PRIu32 ", this build applies types up to %" PRIu32
		               ": install the cluster's release",
		               i->max_entry_type, n->o.max_entry_type);
	return 0;
}

/* What lies behind the image is of no use in fsm.mdb. */
static int cut_to_image(const char *path, const struct node_install *in, struct err *e)
{
	if (ftruncate(in->fd, (off_t)in->info.image_len) != 0 || fsync(in->fd) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not shorten %s", path);
	return 0;
}

static int complete(struct node *n, struct node_install *in, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	char temp[SNAPFILE_PATH_MAX];
	restore_path(n, path);
	int rc = snapfile_read_info(path, &in->info, e);
	if (rc == 0)
		rc = check_label(n, in, e);
	if (rc)
		return rc;
	node_snapshot_temp(n, temp);
	rc = snapfile_copy(path, &in->info, true, temp, e); /* which reads and verifies all of it */
	if (rc)
		return rc;
	rc = cut_to_image(path, in, e);
	if (rc == 0)
		rc = snapfile_check_image(path, &in->info, n->o.max_entry_type, e);
	if (rc == 0)
		rc = snapfile_publish(n->o.data_dir, temp, &in->info, e);
	in->published = rc == 0;
	if (rc)
		unlink(temp);
	return rc;
}

static int take_chunk(struct node *n, struct node_install *in, struct err *e)
{
	int rc = in->offset == 0 ? begin_file(n, in, e) : 0;
	if (rc == 0 && in->fd < 0)
		rc = err_set(e, ERR_CLOSED, "the file of this image was thrown away"); /* after a long silence */
	if (rc == 0)
		rc = write_chunk(in, e);
	if (rc == 0 && in->last)
		rc = complete(n, in, e);
	if (rc || in->last)
		close_file(in);
	if (rc)
		throw_away(n);
	return rc;
}

static void run_chunk_job(struct job *j)
{
	struct node_install *in = CONTAINER_OF(j, struct node_install, job);
	struct node *n = in->node;
	in->why = (struct err){ 0 };
	in->status = take_chunk(n, in, &in->why);
	slab_unref(in->slab);
	in->slab = NULL;
	if (in->status == 0 && in->last) {
		in->tries = 0;
		set_phase(in, NODE_INSTALL_SWITCHING);
		wake_signal(&n->apply_wake);
		return;
	}
	set_phase(in, NODE_INSTALL_DONE);
	wake_signal(&n->wake);
}

static void run_throw_away_job(struct job *j)
{
	struct node_install *in = CONTAINER_OF(j, struct node_install, job);
	struct node *n = in->node;
	throw_away(n);
	in->status = 0;
	set_phase(in, NODE_INSTALL_DONE);
	wake_signal(&n->wake);
}

/* ---- apply thread ---- */

bool node_install_may_switch(const struct node *n)
{
	return phase_of(&n->install) == NODE_INSTALL_SWITCHING;
}

static void end_switch(struct node *n, int status)
{
	n->install.status = status;
	set_phase(&n->install, NODE_INSTALL_DONE);
	wake_signal(&n->wake);
}

/* Called with nothing left to apply; raft hands nothing out until it is told. Returns when to try again, 0 = over. */
uint64_t node_install_switch(struct node *n, uint64_t now_ms)
{
	struct node_install *in = &n->install;
	char path[SNAPFILE_PATH_MAX];
	restore_path(n, path);
	if (now_ms < in->next_try_ms)
		return in->next_try_ms;
	const int rc = fsm_replace(n->fsm, path, &in->why);
	if (rc == ERR_BUSY && ++in->tries < SWITCH_TRIES) {
		in->next_try_ms = now_ms + SWITCH_RETRY_MS;
		return in->next_try_ms;
	}
	if (rc != 0)
		unlink(path);
	end_switch(n, rc);
	return 0;
}

void node_install_refuse(struct node *n)
{
	err_set(&n->install.why, ERR_STOPPED, "this node stopped applying");
	end_switch(n, ERR_STOPPED);
}

/* ---- consensus thread ---- */

bool node_install_is_busy(const struct node *n)
{
	return phase_of(&n->install) != NODE_INSTALL_IDLE;
}

bool node_install_is_switching(const struct node *n)
{
	return node_install_is_busy(n) && n->install.last;
}

static void begin_chunk(struct node *n, const struct raft_install *chunk) /* takes the slab's count */
{
	struct node_install *in = &n->install;
	in->node = n;
	in->index = chunk->index;
	in->term = chunk->term;
	in->cluster_id = n->self.cluster_id;
	in->offset = chunk->offset;
	in->size = chunk->size;
	in->data = chunk->data;
	in->data_len = chunk->data_len;
	in->slab = chunk->slab;
	in->last = chunk->last;
	in->published = false;
	in->next_try_ms = 0;
	in->touched_ms = n->now;
	in->incoming = true;
	in->job.run = run_chunk_job;
	n->snap.shown.receiving = in->index;
	n->snap.shown.received = in->offset;
	n->snap.shown.receive_size = in->size;
	set_phase(in, NODE_INSTALL_WRITING);
	pool_submit(n->pool, &in->job);
}

void node_install_chunk(struct node *n, const struct raft_install *chunk)
{
	struct node_install *in = &n->install;
	struct raft_install own = *chunk;
	own.slab = slab_ref(chunk->slab);
	own.conf = NULL; /* raft's memory; the image holds it too */
	if (phase_of(in) == NODE_INSTALL_IDLE) {
		begin_chunk(n, &own);
		return;
	}
	/* An older image is just being thrown away: nothing of this one can have come before. */
	assert(!in->incoming && in->held.index == 0);
	in->held = own;
}

static void show_end(struct node *n)
{
	n->install.incoming = false;
	n->snap.shown.receiving = 0;
	n->snap.shown.received = 0;
	n->snap.shown.receive_size = 0;
}

static void refused(struct node *n)
{
	struct node_install *in = &n->install;
	const bool switched = in->last && in->status != 0 && !store_is_open(fsm_store(n->fsm));
	n->snap.shown.refused++;
	if (in->published)
		node_snapshot_note(n, &in->info); /* it is good all the same, and the next start puts it in place */
	if (in->status == ERR_VERSION || switched) {
		char why[300];
		snprintf(why, sizeof(why), "snapshot of index %" PRIu64 ": %.200s", in->index, in->why.msg);
		log_error("metastore: stopped, a snapshot from the leader cannot be put in place",
		          "index=%" PRIu64 " build=%s reason=\"%s\" remedy=\"%s\"", in->index, n->o.build, in->why.msg,
		          switched ? "mend the disk, then start again" : "start the release the cluster runs");
		node_mark_stopped(n, why);
	} else if (log_allow(&n->image_limit, REFUSED_QUIET_MS)) {
		log_error("snapshot.refused", "index=%" PRIu64 " offset=%" PRIu64 " size=%" PRIu64 " reason=\"%s\"",
		          in->index, in->offset, in->size, in->why.msg);
	}
	show_end(n);
	raft_snapshot_installed(n->raft, in->index, in->status);
}

/* raft first: what apply stands at now is beyond what was handed out to it. */
static void installed(struct node *n)
{
	struct node_install *in = &n->install;
	raft_snapshot_installed(n->raft, in->index, 0);
	node_look(n);
	n->applied_told = in->index;
	if (in->info.time_ms > n->last_time_ms)
		n->last_time_ms = in->info.time_ms;
	node_snapshot_note(n, &in->info);
	n->snap.wanted = false;
	n->snap.shown.installed++;
	log_info("snapshot.installed", "index=%" PRIu64 " term=%" PRIu64 " bytes=%" PRIu64, in->index, in->term,
	         in->size);
	show_end(n);
}

void node_install_drain(struct node *n)
{
	struct node_install *in = &n->install;
	if (phase_of(in) != NODE_INSTALL_DONE)
		return;
	set_phase(in, NODE_INSTALL_IDLE);
	if (!in->incoming) { /* it was only thrown away */
		if (in->held.index != 0) {
			begin_chunk(n, &in->held);
			in->held = (struct raft_install){ 0 };
		}
		return;
	}
	if (in->status != 0) {
		refused(n);
	} else if (in->last) {
		installed(n);
	} else {
		n->snap.shown.received = in->offset + in->data_len;
		raft_snapshot_installed(n->raft, in->index, 0);
	}
}

/* An image whose sender is gone, with its leader or because this node caught up by other means. */
uint64_t node_install_turn(struct node *n)
{
	struct node_install *in = &n->install;
	if (phase_of(in) != NODE_INSTALL_IDLE || !in->incoming)
		return UINT64_MAX;
	if (n->now < in->touched_ms + IDLE_MAX_MS)
		return in->touched_ms + IDLE_MAX_MS;
	log_info("snapshot.abandoned", "index=%" PRIu64 " received=%" PRIu64 " size=%" PRIu64, in->index,
	         in->offset + in->data_len, in->size);
	show_end(n);
	in->job.run = run_throw_away_job;
	in->last = false;
	set_phase(in, NODE_INSTALL_WRITING);
	pool_submit(n->pool, &in->job);
	return UINT64_MAX;
}

void node_install_discard(struct node *n)
{
	assert(phase_of(&n->install) != NODE_INSTALL_WRITING); /* the pool has run dry before the node ends */
	close_file(&n->install);
	slab_unref(n->install.held.slab);
}
