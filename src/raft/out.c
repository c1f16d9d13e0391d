/* What leaves the core: messages, traces, answered reads. Filled by every file, handed over by ready.c.
 *
 * The rule of §5: term, vote and entries are durable before anybody hears of them. Entries are waited for in follow.c,
 * which answers with what is durable; term and vote here, where messages that rest on them are held.
 */
#include "raft/raft_internal.h"

#define RESERVE_ONE(v, count, cap)                                                                                     \
	do {                                                                                                           \
		if ((count) == (cap)) {                                                                                \
			(cap) = (cap) ? (cap)*2 : 16;                                                                  \
			(v) = mem_realloc((v), (cap) * sizeof(*(v)));                                                  \
		}                                                                                                      \
	} while (0)

static void msgs_push(struct msgs *q, const struct raft_msg *m)
{
	RESERVE_ONE(q->v, q->count, q->cap);
	q->v[q->count++] = *m;
}

void out_fini(struct out *o)
{
	mem_free(o->msgs.v);
	mem_free(o->held.v);
	mem_free(o->traces);
	mem_free(o->reads);
	*o = (struct out){ 0 };
}

static struct raft_msg signed_msg(const struct raft *r, const struct raft_msg *m)
{
	struct raft_msg out = *m;
	assert(out.to != 0 && out.to != r->p.self);
	out.from = r->p.self;
	if (out.term == 0)
		out.term = r->term;
	return out;
}

void out_post(struct raft *r, const struct raft_msg *m)
{
	const struct raft_msg out = signed_msg(r, m);
	msgs_push(&r->out.msgs, &out);
}

void out_post_durable(struct raft *r, const struct raft_msg *m)
{
	if (r->disk.failed)
		return;
	const struct raft_msg out = signed_msg(r, m);
	const bool early = m->type == RAFT_MSG_VOTE_REPLY && SIM_FAULT("vote-before-durable");
	msgs_push(early || disk_has_hard_state(r) ? &r->out.msgs : &r->out.held, &out);
}

void out_release_held(struct raft *r)
{
	for (size_t i = 0; i < r->out.held.count; i++)
		msgs_push(&r->out.msgs, &r->out.held.v[i]);
	r->out.held.count = 0;
}

void out_drop_held(struct raft *r)
{
	r->out.held.count = 0;
}

void out_trace(struct raft *r, enum raft_trace_kind kind, node_id peer, uint64_t a, uint64_t b)
{
	struct out *o = &r->out;
	RESERVE_ONE(o->traces, o->trace_count, o->trace_cap);
	o->traces[o->trace_count++] = (struct raft_trace){ .kind = kind, .peer = peer, .a = a, .b = b };
}

void out_read_done(struct raft *r, uint64_t ctx, int status, raft_index index)
{
	struct out *o = &r->out;
	RESERVE_ONE(o->reads, o->read_count, o->read_cap);
	o->reads[o->read_count++] = (struct raft_read_done){ .ctx = ctx, .status = status, .index = index };
}
