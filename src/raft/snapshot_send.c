/* §5: sending an image to a peer whose next entry is compacted away.
 *
 *   IMAGE_ASK --- raft_ready.snapshot_reads ---> IMAGE_READING --- read_done ---> IMAGE_SENT
 *       ^                                                                            |
 *       +------------- the peer's answer names the next byte it wants ---------------+
 *
 * One chunk is under way at a time, and the peer answers when it has written it: so the slower of network and disk sets
 * the pace. The answer's offset is the whole resumption: a chunk lost with its link is sent again, a peer that
 * restarted asks for byte 0. Failure (the file is gone, the image did not verify there): IMAGE_WAIT, then anew with the
 * newest.
 */
#include "raft/raft_internal.h"

/* A chunk unanswered for so long was lost; one that is still on a slow link is harmless twice. */
static uint64_t resend_ms(const struct raft *r)
{
	return 4ull * r->p.election_ms;
}

static void start(struct raft *r, struct peer *p)
{
	mem_free(p->image.conf);
	p->image = (struct image){ .index = r->log.snap_index,
		                   .term = r->log.snap_term,
		                   .conf = mem_dup(r->snap_conf, sizeof(*r->snap_conf)),
		                   .state = IMAGE_ASK };
	if (p->hold == 0)
		p->hold_since_ms = r->now_ms; /* image after image is one hold */
	p->hold = p->image.index;
	out_trace(r, RAFT_TRACE_SNAPSHOT, p->id, p->image.index, 0);
}

static void fail_image(struct raft *r, struct peer *p)
{
	p->image.state = IMAGE_WAIT;
	p->image.due_ms = r->now_ms + r->p.election_ms;
	out_trace(r, RAFT_TRACE_SNAPSHOT, p->id, p->image.index, 2);
}

bool snapshot_begin(struct raft *r, struct peer *p)
{
	assert(p->image.index == 0 && r->snap_conf);
	if (!peer_is_active(r, p))
		return false;
	peer_probe(p, p->next); /* what was out for it is moot */
	p->state = PEER_SNAPSHOT;
	start(r, p);
	return true;
}

void snapshot_end(struct raft *r, struct peer *p, bool done)
{
	out_trace(r, RAFT_TRACE_SNAPSHOT, p->id, p->image.index, done ? 1 : 2);
	mem_free(p->image.conf);
	p->image = (struct image){ 0 };
}

static void ask(struct raft *r, struct peer *p)
{
	struct image *im = &p->image;
	struct out *o = &r->out;
	assert(o->snapshot_read_count < ARRAY_LEN(o->snapshot_reads));
	im->state = IMAGE_READING;
	o->snapshot_reads[o->snapshot_read_count++] = (struct raft_snapshot_read){
		.peer = p->id,
		.index = im->index,
		.offset = im->offset,
		.msg = { .type = RAFT_MSG_SNAPSHOT,
		         .from = r->p.self,
		         .to = p->id,
		         .term = r->term,
		         .index = im->index,
		         .log_term = im->term,
		         .offset = im->offset,
		         .conf = im->offset == 0 ? im->conf : NULL },
	};
}

void snapshot_poll(struct raft *r, struct peer *p)
{
	struct image *im = &p->image;
	if (im->state == IMAGE_WAIT && r->now_ms >= im->due_ms && peer_is_active(r, p))
		start(r, p);
	if (im->state == IMAGE_SENT && r->now_ms >= im->due_ms && peer_is_active(r, p))
		im->state = IMAGE_ASK;
	if (im->state == IMAGE_ASK)
		ask(r, p);
}

void snapshot_link_lost(struct raft *r, struct peer *p)
{
	if (p->image.state == IMAGE_SENT)
		p->image.due_ms = r->now_ms + r->p.heartbeat_ms;
}

void raft_snapshot_read_done(struct raft *r, node_id peer, int status)
{
	ready_recycle(r);
	struct peer *p = peer_find(r, peer);
	if (!p || p->state != PEER_SNAPSHOT || p->image.state != IMAGE_READING)
		return;
	if (status == ERR_NOTFOUND || status == ERR_CORRUPT) {
		fail_image(r, p);
		return;
	}
	/* Any other failure is the link's: the chunk did not leave. */
	p->image.state = IMAGE_SENT;
	p->image.due_ms = r->now_ms + (status == 0 ? resend_ms(r) : r->p.heartbeat_ms);
}

void snapshot_on_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = peer_find(r, m->from);
	if (!p || r->role != RAFT_LEADER)
		return;
	p->contact_ms = r->now_ms;
	struct image *im = &p->image;
	if (p->state != PEER_SNAPSHOT || im->state != IMAGE_SENT || m->index != im->index)
		return;
	if (!m->flag) {
		fail_image(r, p);
		return;
	}
	/* A second answer to a chunk that was sent twice asks for what is out already: heeding it would double the
	 * rest. */
	if (m->offset <= im->offset && (m->offset != 0 || im->offset == 0))
		return;
	im->offset = m->offset;
	im->state = IMAGE_ASK;
}
