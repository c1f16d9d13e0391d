/* The ways to a decision that destroys something. There are three, and no other evidence counts: not an own index that
 * agrees with itself, not a list that lacks a name, not an election that was won.
 *
 *   node_is_caught_up    this replica holds everything that a leader reported: good for keeping and for showing, and
 * the least that must hold before anything else is asked node_holds_office    the leader's own state covers its term:
 * what it plans from here on goes into the log as compare-and-set under that term, and is judged again when it is
 * applied node_ask_read        the barrier: a majority says after the question that this node leads, or who does, and
 * up to which index; whoever asked applies up to there and reads anew. Confirmation for others (service/confirm.c) is
 * this on the leader
 *
 * Each answers yes or not now. Whatever is in doubt is not now, upon which the data is kept.
 *
 * Read indexes are linearizable. Whoever asks before a round begins shares it, so a burst costs one round of
 * heartbeats; a few rounds may be under way at once, and those who come while all are taken gather for the next. A
 * reader never joins a round that began before it asked: an index from before a write is no answer to a read after it.
 */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/fault.h"
#include "base/mem.h"

/* ---- the barrier: consensus thread ---- */

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

/* ---- any thread ---- */

bool node_ask_read(struct node *n, struct node_reply_to reply)
{
	return queue_put(n->readers, &reply);
}

/* ---- this replica, and this office ---- */

bool node_holds_office(const struct node_status *s, raft_index applied, raft_term term)
{
	return term != 0 && s->role == RAFT_LEADER && s->term == term && s->term_start != 0 && applied >= s->term_start;
}

/* A leader is current once it has applied everything committed and, with it, the no-op of its own term: winning an
 * election proves the log, not the state. A follower must have been told by a leader since this start how far the
 * cluster is; its own indexes agree with each other trivially right after a restore. */
static void judge_progress(const struct node_status *s, raft_index applied, char *why, size_t cap)
{
	const bool leads = s->role == RAFT_LEADER;
	const raft_index proof = leads ? s->term_start : s->leader_commit;
	raft_index must = s->commit_index > s->handed_index ? s->commit_index : s->handed_index;
	if (must < proof)
		must = proof;
	if (s->commit_index == 0 || proof == 0)
		snprintf(why, cap,
		         leads ? "nothing was committed in this term yet"
		               : "no leader has said since the start how far the cluster is");
	else if (applied < must)
		snprintf(why, cap, "applied %" PRIu64 " of %" PRIu64, applied, must);
}

bool node_is_caught_up(const struct node *n, char *why, size_t cap)
{
	char text[sizeof(((struct node_status *)0)->stopped) + 32] = "";
	/* Applied is read first: it only grows, so what is judged is at most too pessimistic. */
	const raft_index applied = fsm_applied_index(n->fsm);
	struct node_status s;
	node_get_status(n, &s);
	const int64_t age = node_contact_age_ms(n);
	if (s.stopped[0] != '\0')
		snprintf(text, sizeof(text), "stopped: %s", s.stopped);
	else if (s.leader[0] == '\0')
		snprintf(text, sizeof(text), "no leader is known");
	else if (s.role != RAFT_LEADER && age < 0)
		snprintf(text, sizeof(text), "no contact with the leader yet");
	else if (s.role != RAFT_LEADER && age > NODE_CONTACT_MAX_MS)
		snprintf(text, sizeof(text), "no contact with the leader for %" PRId64 " ms", age);
	else
		judge_progress(&s, applied, text, sizeof(text));
	if (why && cap > 0)
		snprintf(why, cap, "%s", text);
	return text[0] == '\0';
}
