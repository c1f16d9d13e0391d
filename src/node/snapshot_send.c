/* Sending a snapshot file to a peer whose next entry is compacted away: raft asks for one chunk at a time, a job of the
 * pool reads it, and it leaves as a RAFT_MSG_SNAPSHOT. The peer's answer names the next byte, so a chunk is read again
 * for whoever asks again, and one at a time is under way for each peer.
 *
 * A file that was written before this process began is read whole before its first chunk leaves: a damaged one would be
 * refused at the far end only after all of it was sent, over and over. One that turns out damaged is never sent; a new
 * one is taken at once in its place. While raft sends a file, or may begin to, snapshot_take.c does not remove it. */
#include "node/node_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/mem.h"

/* ---- pool ---- */

static int read_chunk(struct node_send *s, const char *path, struct err *e)
{
	const uint64_t left = s->msg.size - s->msg.offset;
	const size_t want = left < s->node->o.chunk_bytes ? (size_t)left : s->node->o.chunk_bytes;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set_errno(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, errno, "could not open %s", path);
	s->slab = slab_new(want);
	int rc = 0;
	while (rc == 0 && s->slab->len < want) {
		const ssize_t n =
		    pread(fd, s->slab->data + s->slab->len, want - s->slab->len, (off_t)(s->msg.offset + s->slab->len));
		if (n > 0)
			s->slab->len += (size_t)n;
		else if (n == 0)
			rc = err_set(e, ERR_CORRUPT, "%s: damaged: cut short", path);
		else if (errno != EINTR)
			rc = err_set_errno(e, ERR_IO, errno, "could not read %s", path);
	}
	close(fd);
	return rc;
}

static int read_file(struct node_send *s, struct err *e)
{
	struct node *n = s->node;
	struct snapfile_info info;
	char path[SNAPFILE_PATH_MAX];
	snapfile_path(n->o.data_dir, s->msg.index, s->msg.log_term, path);
	int rc = snapfile_read_named(n->o.data_dir, s->msg.index, s->msg.log_term, &info, e);
	if (rc == 0 && !s->verified)
		rc = snapfile_verify(path, &info, e);
	if (rc)
		return rc;
	s->verified = true;
	s->msg.size = info.file_len;
	if (s->msg.offset >= info.file_len) /* the peer began with another file of this name */
		return err_set(e, ERR_NOTFOUND, "%s: byte %" PRIu64 " is behind its end", path, s->msg.offset);
	return read_chunk(s, path, e);
}

static void run_send_job(struct job *j)
{
	struct node_send *s = CONTAINER_OF(j, struct node_send, job);
	struct node *n = s->node;
	struct err e = { 0 };
	s->status = read_file(s, &e);
	if (s->status)
		log_error("snapshot.unread", "index=%" PRIu64 " offset=%" PRIu64 " reason=\"%s\"", s->msg.index,
		          s->msg.offset, e.msg);
	const bool put = queue_put(n->chunks, &s);
	assert(put); /* one chunk per server, and there are more slots than servers */
}

/* ---- consensus thread ---- */

static void free_send(struct node *n, struct node_send *s)
{
	slab_unref(s->slab);
	mem_free(s);
	n->snap.sends--;
}

void node_send_start(struct node *n, const struct raft_snapshot_read *ask)
{
	assert(n->snap.sends < NODE_SEND_SLOTS);
	const struct snapfile *f = snapfiles_find(&n->snap.files, ask->index, ask->msg.log_term);
	struct node_send *s = mem_zalloc(sizeof(*s));
	s->node = n;
	s->peer = ask->peer;
	s->msg = ask->msg;
	if (ask->msg.conf) {
		s->conf = *ask->msg.conf;
		s->msg.conf = &s->conf;
	}
	n->snap.sends++;
	s->job.run = run_send_job;
	s->verified = f && f->verified;
	if (f && !f->damaged) {
		pool_submit(n->pool, &s->job);
		return;
	}
	s->status = ERR_NOTFOUND; /* as after a start without a good file: one is being taken */
	const bool put = queue_put(n->chunks, &s);
	assert(put);
}

/* What cannot be read is as good as damaged: nobody is to wait for it. */
static void give_up_file(struct node *n, const struct node_send *s)
{
	struct snapfile *f = snapfiles_find(&n->snap.files, s->msg.index, s->msg.log_term);
	if (f && !f->damaged) {
		f->damaged = true;
		node_snapshot_show(n);
		node_snapshot_want(n);
	}
}

static int send_chunk(struct node *n, struct node_send *s)
{
	struct snapfile *f = snapfiles_find(&n->snap.files, s->msg.index, s->msg.log_term);
	if (f)
		f->verified = true;
	s->msg.slab = s->slab;
	s->msg.data = s->slab->data;
	s->msg.data_len = s->slab->len;
	return node_send_msg(n, &s->msg) ? 0 : ERR_CLOSED;
}

static void finish_send(struct node *n, struct node_send *s)
{
	if (s->status == ERR_CORRUPT || s->status == ERR_VERSION || s->status == ERR_IO)
		give_up_file(n, s);
	/* A chunk that was asked for in an earlier office is nobody's any more. */
	if (n->stopped[0] == '\0' && n->view.role == RAFT_LEADER && n->view.term == s->msg.term) {
		int status = s->status;
		if (status == 0)
			status = send_chunk(n, s);
		else if (status != ERR_NOTFOUND)
			status = ERR_CORRUPT;
		raft_snapshot_read_done(n->raft, s->peer, status);
	}
	free_send(n, s);
}

void node_send_drain(struct node *n)
{
	struct node_send *s;
	while (queue_take(n->chunks, &s))
		finish_send(n, s);
}

void node_send_discard(struct node *n)
{
	struct node_send *s;
	while (queue_take(n->chunks, &s))
		free_send(n, s);
	assert(n->snap.sends == 0); /* the pool has run dry before the node ends */
}
