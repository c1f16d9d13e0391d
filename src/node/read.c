/* Linearizable read indexes. Whoever asks before a round begins shares it, so a burst costs one round of heartbeats; a
 * few rounds may be under way at once, and those who come while all are taken gather for the next. A reader never joins
 * a round that began before it asked: an index from before a write is no answer to a read after it. */
#include "node/node_internal.h"

#include <assert.h>

#include "base/fault.h"
#include "base/mem.h"

static void round_add(struct node_read_round *r, const struct node_reply_to *reader)
{
	if (r->count == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 64;
		r->readers = mem_realloc(r->readers, r->cap * sizeof(*r->readers));
	}
	r->readers[r->count++] = *reader;
}

static void round_answer(struct node_read_round *r, int code, raft_index index)
{
	for (size_t i = 0; i < r->count; i++)
		node_answer(&r->readers[i], code, index, 0);
	r->count = 0;
	r->ctx = 0;
}

static struct node_read_round *free_round(struct node *n)
{
	for (size_t i = 0; i < NODE_READ_ROUNDS_MAX; i++) {
		if (n->reads.rounds[i].ctx == 0)
			return &n->reads.rounds[i];
	}
	return NULL;
}

void node_read_begin(struct node *n)
{
	struct node_read_round *gathering = &n->reads.gathering;
	struct node_read_round *r = gathering->count > 0 ? free_round(n) : NULL;
	if (!r)
		return;
	const struct node_read_round spare = *r;
	*r = *gathering;
	*gathering = spare;
	gathering->count = 0;
	r->ctx = ++n->reads.last_ctx;
	raft_read(n->raft, r->ctx);
}

void node_read_drain(struct node *n)
{
	struct node_reply_to reader;
	for (size_t i = 0; i < NODE_QUEUE_SLOTS && queue_take(n->readers, &reader); i++) {
		if (SIM_FAULT("read-without-round"))
			node_answer(&reader, 0, n->view.commit_index, 0);
		else
			round_add(&n->reads.gathering, &reader);
	}
	node_read_begin(n);
}

void node_read_done(struct node *n, const struct raft_read_done *d)
{
	for (size_t i = 0; i < NODE_READ_ROUNDS_MAX; i++) {
		struct node_read_round *r = &n->reads.rounds[i];
		if (r->ctx == d->ctx && d->ctx != 0)
			round_answer(r, d->status, d->index);
	}
}

void node_read_refuse(struct node *n, int code)
{
	struct node_reply_to reader;
	while (queue_take(n->readers, &reader))
		node_answer(&reader, code, 0, 0);
	round_answer(&n->reads.gathering, code, 0);
	for (size_t i = 0; i < NODE_READ_ROUNDS_MAX; i++)
		round_answer(&n->reads.rounds[i], code, 0);
}

void node_read_fini(struct node *n)
{
	mem_free(n->reads.gathering.readers);
	for (size_t i = 0; i < NODE_READ_ROUNDS_MAX; i++)
		mem_free(n->reads.rounds[i].readers);
}

bool node_ask_read(struct node *n, struct node_reply_to reply)
{
	return queue_put(n->readers, &reply);
}
