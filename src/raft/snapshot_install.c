/* §5: taking in an image, chunk by chunk.
 *
 * Good path: a chunk that continues what is there goes to the driver, who writes it and answers; only then is the next
 * one asked for. With the last chunk the driver checks, syncs and switches the state machine; from the moment it is
 * offered until the answer, nothing is handed to apply and this node does not campaign.
 *
 * How it fails: a chunk from another leader, or of another image, begins anew at its byte 0 (files of two nodes differ
 * byte by byte even at one index); while the driver holds a chunk, another image is refused. An image at or below the
 * commit index is answered with what is committed here. An image the driver refuses is forgotten, its sender told.
 * After a crash between switch and the log's reset, raft_new finds the snapshot ahead of the log and resets it.
 */
#include "raft/raft_internal.h"

static void reply(struct raft *r, const struct raft_msg *m, uint64_t offset, bool ok)
{
	const struct raft_msg out = {
		.type = RAFT_MSG_SNAPSHOT_REPLY, .to = m->from, .index = m->index, .offset = offset, .flag = ok
	};
	out_post_durable(r, &out);
}

static void reply_sender(struct raft *r, uint64_t offset, bool ok)
{
	const struct raft_msg m = { .from = r->install.from, .index = r->install.index };
	if (m.from != 0 && m.from == r->leader && r->role == RAFT_FOLLOWER)
		reply(r, &m, offset, ok);
}

static void forget(struct raft *r)
{
	slab_unref(r->install.slab);
	mem_free(r->install.conf);
	r->install = (struct install){ 0 };
}

void snapshot_drop_install(struct raft *r)
{
	/* A chunk with the driver comes back, and must not be mistaken for one of a later image. */
	if (r->install.has_chunk && r->install.handed)
		r->install.from = 0;
	else
		forget(r);
}

bool snapshot_is_switching(const struct raft *r)
{
	return r->install.has_chunk && r->install.last;
}

static bool is_sound_chunk(const struct raft_msg *m)
{
	if (m->log_term == 0 || m->log_term > m->term || !m->data || m->data_len == 0 || !m->slab)
		return false;
	if (m->size == 0 || m->size > RAFT_NUMBER_MAX || m->offset >= m->size || m->data_len > m->size - m->offset)
		return false;
	return m->offset > 0 || (m->conf && conf_check(m->conf, NULL) == 0);
}

static void begin(struct raft *r, const struct raft_msg *m)
{
	forget(r);
	r->install = (struct install){ .from = m->from,
		                       .index = m->index,
		                       .term = m->log_term,
		                       .size = m->size,
		                       .conf = mem_dup(m->conf, sizeof(*m->conf)) };
	out_trace(r, RAFT_TRACE_SNAPSHOT, m->from, m->index, 0);
}

void snapshot_on_chunk(struct raft *r, const struct raft_msg *m)
{
	struct install *in = &r->install;
	if (r->disk.failed || !is_sound_chunk(m))
		return;
	if (m->index <= r->log.commit) {
		if (r->follow.match < r->log.commit)
			r->follow.match = r->log.commit;
		r->follow.due = true;
		return;
	}
	const bool continues =
	    in->from == m->from && in->index == m->index && in->term == m->log_term && in->size == m->size;
	if (in->has_chunk) {
		if (!continues)
			reply(r, m, 0, false);
		return;
	}
	if (!continues) {
		if (m->offset > 0) {
			reply(r, m, 0, true);
			return;
		}
		begin(r, m);
	}
	if (m->offset != in->offset) {
		reply(r, m, in->offset, true);
		return;
	}
	in->has_chunk = true;
	in->handed = false;
	in->last = m->offset + m->data_len == m->size;
	in->data = m->data;
	in->data_len = m->data_len;
	in->slab = slab_ref(m->slab);
}

void snapshot_offer(struct raft *r, struct raft_install *out)
{
	struct install *in = &r->install;
	*out = (struct raft_install){ 0 };
	if (!in->has_chunk || in->handed)
		return;
	in->handed = true;
	*out = (struct raft_install){ .index = in->index,
		                      .term = in->term,
		                      .offset = in->offset,
		                      .size = in->size,
		                      .data = in->data,
		                      .data_len = in->data_len,
		                      .slab = in->slab,
		                      .conf = in->conf,
		                      .last = in->last };
}

/* The state machine serves the image: the log follows. What lies behind the image in an agreeing log stays. */
static void complete(struct raft *r)
{
	struct install *in = &r->install;
	struct rlog *l = &r->log;
	assert(r->role != RAFT_LEADER && in->index > l->applied);
	l->snap_index = in->index;
	l->snap_term = in->term;
	mem_free(r->snap_conf);
	r->snap_conf = in->conf;
	in->conf = NULL;
	if (in->index <= l->last && rlog_term_at(l, in->index) == in->term) {
		/* Entries not yet given to the disk still have to be. */
		const raft_index covered = in->index < l->unwritten ? in->index : l->unwritten - 1;
		if (covered > l->durable)
			l->durable = covered;
		advance_committed(r, in->index);
	} else {
		rlog_reset(l, in->index, in->term);
		r->disk.reset = true;
		l->commit = in->index;
		confs_reset(&r->confs, r->snap_conf);
		peer_rebuild(r);
	}
	l->handed = in->index;
	l->applied = in->index;
	fetch_drop(&r->own);
	if (r->role == RAFT_FOLLOWER && r->leader != 0 && r->leader == in->from) {
		if (r->follow.match < in->index)
			r->follow.match = in->index;
		r->follow.due = true;
	}
}

void raft_snapshot_installed(struct raft *r, raft_index index, int status)
{
	ready_recycle(r);
	struct install *in = &r->install;
	if (!in->has_chunk || !in->handed || in->index != index)
		return;
	slab_unref(in->slab);
	in->slab = NULL;
	in->has_chunk = false;
	if (status == 0 && !in->last && in->from != 0) {
		in->offset += in->data_len;
		reply_sender(r, in->offset, true);
		return;
	}
	if (in->last && status == 0) {
		out_trace(r, RAFT_TRACE_SNAPSHOT, in->from, index, 1);
		complete(r);
	} else {
		out_trace(r, RAFT_TRACE_SNAPSHOT, in->from, index, 2);
		reply_sender(r, 0, false);
	}
	forget(r);
}
