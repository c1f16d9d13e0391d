/* Proposals: from any thread's queue into the log, and who waits for which index.
 *
 * On the leader an accepted proposal waits in a ring by index until its entry is committed and handed to apply, which
 * answers. When the office is lost, whatever still waits is answered "outcome unknown" at once: the entry may be cut
 * off or committed by the next leader, and nobody can say which. What is refused here never was in the log. */
#include "node/node_internal.h"

#include <assert.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

/* One raft_propose takes all or nothing, so a batch is small against raft's limit on what is uncommitted. */
#define BATCH_ENTRIES 256
#define BATCH_BYTES (1u << 20)

void node_answer(const struct node_reply_to *to, int code, raft_index index, uint64_t detail)
{
	if (!to->queue)
		return;
	const struct node_completion c = {
		.slot = to->slot, .generation = to->generation, .code = code, .index = index, .detail = detail
	};
	const bool put = queue_put(to->queue, &c);
	assert(put); /* a completion queue has a slot for each request that may be outstanding */
}

/* ---- the ring ---- */

static struct node_pending *ring_at(struct node_pending_ring *r, size_t i)
{
	return &r->slots[(r->head + i) & (r->cap - 1)];
}

static void ring_grow(struct node_pending_ring *r)
{
	const size_t cap = r->cap ? r->cap * 2 : 256;
	struct node_pending *slots = mem_alloc(cap * sizeof(*slots));
	for (size_t i = 0; i < r->count; i++)
		slots[i] = *ring_at(r, i);
	mem_free(r->slots);
	r->slots = slots;
	r->cap = cap;
	r->head = 0;
}

static void pending_add(struct node *n, raft_index index, const struct node_reply_to *reply)
{
	struct node_pending_ring *r = &n->pending;
	assert(r->count == 0 || ring_at(r, r->count - 1)->index < index);
	if (r->count == r->cap)
		ring_grow(r);
	*ring_at(r, r->count) = (struct node_pending){ .index = index, .reply = *reply };
	r->count++;
}

struct node_reply_to node_pending_take(struct node *n, raft_index index)
{
	struct node_pending_ring *r = &n->pending;
	if (r->count == 0 || ring_at(r, 0)->index > index)
		return (struct node_reply_to){ .queue = NULL };
	assert(ring_at(r, 0)->index == index); /* entries are handed out in order, none is passed over */
	const struct node_reply_to reply = ring_at(r, 0)->reply;
	r->head = (r->head + 1) & (r->cap - 1);
	r->count--;
	return reply;
}

void node_pending_fail(struct node *n)
{
	struct node_pending_ring *r = &n->pending;
	for (size_t i = 0; i < r->count; i++)
		node_answer(&ring_at(r, i)->reply, ERR_CLOSED, ring_at(r, i)->index, 0);
	r->head = 0;
	r->count = 0;
}

/* ---- into the log ---- */

struct batch {
	struct entry entries[BATCH_ENTRIES];
	struct node_reply_to replies[BATCH_ENTRIES];
	size_t count;
	size_t bytes;
};

/* What the world looks like now, not when the proposal was made: it may have queued behind an election or a register.
 */
static int judge(const struct node *n, const struct node_proposal *p)
{
	if (n->stopped[0] != '\0')
		return ERR_STOPPED;
	if (n->view.role != RAFT_LEADER || n->view.transferring)
		return ERR_NOT_LEADER;
	if (p->term != 0 && p->term != n->view.term && !SIM_FAULT("append-under-old-term"))
		return ERR_NOT_LEADER;
	if (!node_gate_lets(n, p->max_type))
		return ERR_VERSION;
	return 0;
}

static void append(struct node *n, struct batch *b)
{
	if (b->count == 0)
		return;
	const uint64_t wall = clock_wall_ms();
	if (n->last_time_ms < wall)
		n->last_time_ms = wall;
	for (size_t i = 0; i < b->count; i++)
		entry_stamp_time(b->entries[i].slab, n->last_time_ms);
	const int rc = raft_propose(n->raft, b->entries, b->count);
	for (size_t i = 0; i < b->count; i++) {
		if (rc != 0)
			node_answer(&b->replies[i], rc, 0, 0);
		else if (b->replies[i].queue)
			pending_add(n, b->entries[i].index, &b->replies[i]);
		if (rc == 0)
			node_gate_note_use(n, &b->entries[i]);
		entry_unref(&b->entries[i]);
	}
	b->count = 0;
	b->bytes = 0;
}

void node_propose_drain(struct node *n)
{
	struct batch b;
	b.count = 0;
	b.bytes = 0;
	struct node_proposal p;
	/* As many as the queue holds: who refills it meanwhile waits for the next turn, so a turn has an end. */
	for (size_t i = 0; i < NODE_QUEUE_SLOTS && queue_take(n->proposals, &p); i++) {
		assert(p.entry->len > 0 && p.entry->len <= ENTRY_PAYLOAD_MAX);
		const int refused = judge(n, &p);
		if (refused) {
			node_answer(&p.reply, refused, 0, 0);
			slab_unref(p.entry);
			continue;
		}
		if (b.count == BATCH_ENTRIES || b.bytes + p.entry->len > BATCH_BYTES)
			append(n, &b);
		b.entries[b.count] = (struct entry){
			.kind = ENTRY_COMMAND, .len = (uint32_t)p.entry->len, .data = p.entry->data, .slab = p.entry
		};
		b.replies[b.count++] = p.reply;
		b.bytes += p.entry->len;
	}
	append(n, &b);
}

/* ---- any thread ---- */

bool node_propose(struct node *n, const struct node_proposal *p)
{
	if (queue_put(n->proposals, p))
		return true;
	slab_unref(p->entry);
	return false;
}
