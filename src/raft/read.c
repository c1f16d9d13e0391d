/* §6.4: linearizable reads without a log entry and without leases.
 *
 * The leader collects what is asked, and confirms it in rounds: each append carries the number of the newest round,
 * each answer echoes the newest one seen. Once a majority echoed a round, whoever asked before it began may read at the
 * commit index of its beginning. One round is under way at a time; what comes meanwhile shares the next. No round
 * begins before the term's no-op committed: until then the leader does not know what is committed.
 *
 * A follower asks the leader in the same way, one question for all that came in a turn. The number of a question begins
 * at a random point, so that an answer to a question of before a restart is never taken for a later one's.
 */
#include "raft/raft_internal.h"

static void list_push(struct read_list *l, const struct read_ask *a)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		l->v = mem_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->count++] = *a;
}

static void answer(struct raft *r, const struct read_ask *a, int status, raft_index index)
{
	if (a->from == r->p.self) {
		out_read_done(r, a->ctx, status, index);
		return;
	}
	if (!peer_find(r, a->from))
		return;
	const struct raft_msg m = {
		.type = RAFT_MSG_READ_REPLY, .to = a->from, .index = index, .round = a->ctx, .flag = status == 0
	};
	out_post(r, &m);
}

void read_fini(struct raft *r)
{
	mem_free(r->reads.waiting.v);
	mem_free(r->reads.open.v);
	r->reads = (struct reads){ 0 };
}

static void fail_list(struct raft *r, struct read_list *l, int status)
{
	for (size_t i = 0; i < l->count; i++)
		answer(r, &l->v[i], status, 0);
	l->count = 0;
}

void read_fail_all(struct raft *r, int status)
{
	fail_list(r, &r->reads.open, status);
	fail_list(r, &r->reads.waiting, status);
}

static uint64_t due(const struct raft *r)
{
	return r->now_ms + 2ull * r->p.election_ms;
}

void raft_read(struct raft *r, uint64_t ctx)
{
	ready_recycle(r);
	if (r->leader == 0) {
		out_read_done(r, ctx, ERR_NOT_LEADER, 0);
		return;
	}
	const struct read_ask a = { .from = r->p.self, .ctx = ctx, .due_ms = due(r) };
	list_push(&r->reads.waiting, &a);
}

static void swap_lists(struct reads *q)
{
	const struct read_list empty = q->open;
	assert(empty.count == 0);
	q->open = q->waiting;
	q->waiting = empty;
}

static void begin_round(struct raft *r)
{
	struct reads *q = &r->reads;
	if (q->open.count > 0 || !(lead_has_committed(r) || SIM_FAULT("read-before-noop")))
		return;
	swap_lists(q);
	q->round = ++r->lead.round;
	q->index = r->log.commit;
	for (size_t i = 0; i < r->peer_count; i++)
		r->peers[i]->beat |= r->peers[i]->voter;
	read_confirm(r);
}

static void ask_leader(struct raft *r)
{
	struct reads *q = &r->reads;
	q->batch = q->batch ? q->batch + 1 : rand_u64(&r->dice) >> 2;
	for (size_t i = 0; i < q->waiting.count; i++) {
		q->waiting.v[i].batch = q->batch;
		list_push(&q->open, &q->waiting.v[i]);
	}
	q->waiting.count = 0;
	const struct raft_msg m = { .type = RAFT_MSG_READ, .to = r->leader, .round = q->batch };
	out_post(r, &m);
}

void read_poll(struct raft *r)
{
	if (r->reads.waiting.count == 0)
		return;
	if (r->role == RAFT_LEADER)
		begin_round(r);
	else if (r->leader != 0)
		ask_leader(r);
}

void read_confirm(struct raft *r)
{
	struct reads *q = &r->reads;
	if (q->open.count == 0 || quorum_round(r) < q->round)
		return;
	for (size_t i = 0; i < q->open.count; i++)
		answer(r, &q->open.v[i], 0, q->index);
	q->open.count = 0;
}

/* Lists are in the order of asking, so what is due stands in front. */
static void expire(struct raft *r, struct read_list *l)
{
	size_t n = 0;
	while (n < l->count && l->v[n].due_ms <= r->now_ms) {
		if (l->v[n].from == r->p.self) /* another node counts for itself */
			answer(r, &l->v[n], ERR_TIMEOUT, 0);
		n++;
	}
	memmove(l->v, l->v + n, (l->count - n) * sizeof(*l->v));
	l->count -= n;
}

void read_tick(struct raft *r)
{
	if (r->reads.open.count > 0)
		expire(r, &r->reads.open);
	if (r->reads.waiting.count > 0)
		expire(r, &r->reads.waiting);
}

uint64_t read_deadline(const struct raft *r)
{
	const struct reads *q = &r->reads;
	uint64_t at = UINT64_MAX;
	if (q->open.count > 0)
		at = q->open.v[0].due_ms;
	if (q->waiting.count > 0 && q->waiting.v[0].due_ms < at)
		at = q->waiting.v[0].due_ms;
	return at;
}

void read_on_read(struct raft *r, const struct raft_msg *m)
{
	const struct read_ask a = { .from = m->from, .ctx = m->round, .due_ms = due(r) };
	if (r->role != RAFT_LEADER || r->reads.waiting.count >= RAFT_READS_MAX)
		answer(r, &a, ERR_NOT_LEADER, 0);
	else
		list_push(&r->reads.waiting, &a);
}

void read_on_read_reply(struct raft *r, const struct raft_msg *m)
{
	struct read_list *l = &r->reads.open;
	if (r->role == RAFT_LEADER || m->from != r->leader)
		return;
	size_t kept = 0;
	for (size_t i = 0; i < l->count; i++) {
		if (l->v[i].batch == m->round)
			answer(r, &l->v[i], m->flag ? 0 : ERR_NOT_LEADER, m->flag ? m->index : 0);
		else
			l->v[kept++] = l->v[i];
	}
	l->count = kept;
}
