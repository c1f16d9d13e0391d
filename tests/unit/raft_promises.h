/* A simulated cluster, and what it has promised so far: the checks stand outside of the code they check.
 *
 * A broken promise ends the run: c->violation says which.
 */
#ifndef TESTS_UNIT_RAFT_PROMISES_H
#define TESTS_UNIT_RAFT_PROMISES_H

#include "base/rand.h"
#include "raft_disk.h"

#define RC_NODES_MAX 7
#define RC_TERMS_MAX 4096
#define RC_IMAGE_BYTES 300
#define RC_CHUNK_BYTES 128

enum rc_job_kind { RC_PERSIST, RC_APPLY, RC_FETCH, RC_CHUNK };

struct rc_job {
	enum rc_job_kind kind;
	uint64_t due_ms;
	uint64_t ticket;
	bool hard_state;
	raft_term term;
	node_id vote;
	raft_index reset_to;
	raft_term reset_term;
	struct entry *entries;
	size_t count;
	raft_index index; /* APPLY: of the last one. FETCH: lo. CHUNK: image */
	raft_index hi;
	node_id peer;
	bool last;
};

struct rc_node {
	struct raft *raft; /* NULL: down */
	node_id id;
	uint64_t deadline_ms;
	uint64_t frozen_until_ms;
	bool disk_held; /* writes do not return */
	bool unheard;   /* its pre-votes are lost */
	struct rc_disk disk;
	struct rc_job *jobs; /* in order of asking, each kind in order of due_ms */
	size_t job_count, job_cap;
	struct rc_image incoming;
	uint64_t incoming_bytes;
	bool dirty; /* something happened since the last raft_ready */
};

struct rc_flight {
	struct raft_msg m;
	struct entry *entries;
	struct raft_conf *conf;
	uint64_t due_ms;
	size_t from, to;
};

struct rc_committed {
	raft_term term;
	raft_term in; /* it was committed in this term at the latest */
	uint64_t sum;
};

struct rc_read {
	uint64_t ctx;
	raft_index at_least;
};

enum rc_trace { RC_TRACE_EVENTS = 1, RC_TRACE_MSGS = 2, RC_TRACE_COMMITS = 4 };

struct rc {
	size_t n;
	struct rc_node nodes[RC_NODES_MAX];
	struct raft_params params;
	struct rand dice;
	uint64_t now_ms;
	bool cut[RC_NODES_MAX][RC_NODES_MAX]; /* from, to */
	uint64_t delay_min_ms, delay_max_ms;
	uint64_t disk_min_ms, disk_max_ms;
	unsigned loss_percent, dup_percent;
	struct rc_flight *flights;
	size_t flight_count, flight_cap;

	int trace; /* enum rc_trace */
	struct buf text;
	char violation[256];
	bool violation_seen;

	/* what was promised so far */
	node_id leader_of[RC_TERMS_MAX];
	node_id vote_of[RC_TERMS_MAX][RC_NODES_MAX];
	struct rc_committed *committed; /* [index] */
	size_t committed_cap;
	raft_index committed_max; /* highest commit index anybody showed */
	struct rc_read reads[64];
	size_t read_count;
	uint64_t payloads;
};

/* ---- saying ---- */

static inline void rc_violate(struct rc *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static inline void rc_violate(struct rc *c, const char *fmt, ...)
{
	if (c->violation[0])
		return;
	va_list args;
	va_start(args, fmt);
	vsnprintf(c->violation, sizeof(c->violation), fmt, args);
	va_end(args);
}

static inline struct buf *rc_say(struct rc *c, size_t node)
{
	buf_printf(&c->text, "%6" PRIu64 " ", c->now_ms);
	text_id(&c->text, c->nodes[node].id);
	buf_putc(&c->text, ' ');
	return &c->text;
}

static inline void rc_note(struct rc *c, const char *what)
{
	buf_printf(&c->text, "%6" PRIu64 " -- %s\n", c->now_ms, what);
}

static inline size_t rc_node_of(node_id id)
{
	return (size_t)(id % 100) - 1;
}

static inline uint64_t rc_between(struct rc *c, uint64_t lo, uint64_t hi)
{
	return hi > lo ? lo + rand_below(&c->dice, hi - lo + 1) : lo;
}

static inline uint64_t rc_sum(const struct entry *e)
{
	uint64_t h = 14695981039346656037u ^ e->kind;
	for (uint32_t i = 0; i < e->len; i++)
		h = (h ^ e->data[i]) * 1099511628211u;
	return h;
}

/* ---- promises that are checked where they show ---- */

static inline void rc_check_msg(struct rc *c, size_t node, const struct raft_msg *m)
{
	const struct rc_disk *d = &c->nodes[node].disk;
	const bool is_vote = (m->type == RAFT_MSG_VOTE_REPLY && m->flag) || m->type == RAFT_MSG_VOTE;
	if (is_vote) {
		const node_id whom = m->type == RAFT_MSG_VOTE ? m->from : m->to;
		if (d->term != m->term || d->vote != whom)
			rc_violate(c, "n%zu: a vote of term %" PRIu64 " left before it was durable", node + 1, m->term);
		node_id *vote = &c->vote_of[m->term % RC_TERMS_MAX][node];
		if (*vote != 0 && *vote != whom)
			rc_violate(c, "n%zu voted twice in term %" PRIu64, node + 1, m->term);
		*vote = whom;
	}
	if (m->type == RAFT_MSG_APPEND_REPLY) {
		if (d->term < m->term)
			rc_violate(c, "n%zu: an answer of term %" PRIu64 " left before the term was durable", node + 1,
			           m->term);
		if (m->flag && !rc_disk_holds(d, m->index, raft_term_at(c->nodes[node].raft, m->index)))
			rc_violate(c, "n%zu acknowledged %" PRIu64 " before it was durable", node + 1, m->index);
	}
}

static inline void rc_check_committed(struct rc *c, size_t node, const struct entry *e)
{
	if (e->index >= c->committed_cap) {
		const size_t cap = (size_t)e->index * 2 + 64;
		c->committed = mem_realloc(c->committed, cap * sizeof(*c->committed));
		memset(c->committed + c->committed_cap, 0, (cap - c->committed_cap) * sizeof(*c->committed));
		c->committed_cap = cap;
	}
	struct rc_committed *was = &c->committed[e->index];
	if (was->term != 0 && (was->term != e->term || was->sum != rc_sum(e)))
		rc_violate(c, "n%zu: committed entry %" PRIu64 " is of term %" PRIu64 ", elsewhere of term %" PRIu64,
		           node + 1, e->index, e->term, was->term);
	struct raft_view v;
	raft_view(c->nodes[node].raft, &v);
	const raft_term in = was->term != 0 && was->in < v.term ? was->in : v.term;
	*was = (struct rc_committed){ .term = e->term, .in = in, .sum = rc_sum(e) };
	if (!rc_disk_holds(&c->nodes[node].disk, e->index, e->term))
		rc_violate(c, "n%zu: entry %" PRIu64 " was applied before it was durable here", node + 1, e->index);
}

static inline void rc_check_leader(struct rc *c, size_t node, raft_term term)
{
	node_id *leader = &c->leader_of[term % RC_TERMS_MAX];
	if (*leader != 0 && *leader != c->nodes[node].id)
		rc_violate(c, "two leaders in term %" PRIu64, term);
	*leader = c->nodes[node].id;
	struct raft_view v;
	raft_view(c->nodes[node].raft, &v);
	for (raft_index i = v.first_index; i < c->committed_cap; i++) {
		if (c->committed[i].term != 0 && c->committed[i].in < term &&
		    raft_term_at(c->nodes[node].raft, i) != c->committed[i].term)
			rc_violate(c, "n%zu leads without committed entry %" PRIu64, node + 1, i);
	}
}

/* What a leader calls committed is on the disks of a majority of the voters. */
static inline void rc_check_majority(struct rc *c, size_t node, const struct raft_view *v)
{
	if (v->role != RAFT_LEADER || v->commit_index <= c->committed_max || !v->conf)
		return;
	const raft_term term = raft_term_at(c->nodes[node].raft, v->commit_index);
	size_t voters = 0, have = 0;
	for (uint32_t i = 0; i < v->conf->count; i++) {
		const struct raft_server *s = &v->conf->servers[i];
		const struct rc_node *nd = &c->nodes[rc_node_of(s->id)];
		voters += s->voter;
		have += s->voter && nd->id == s->id && rc_disk_holds(&nd->disk, v->commit_index, term);
	}
	if (2 * have <= voters)
		rc_violate(c, "n%zu calls %" PRIu64 " committed, and %zu of %zu disks have it", node + 1,
		           v->commit_index, have, voters);
}

static inline void rc_check_read(struct rc *c, const struct raft_read_done *rd)
{
	for (size_t i = 0; i < c->read_count; i++) {
		if (c->reads[i].ctx != rd->ctx)
			continue;
		if (rd->status == 0 && rd->index < c->reads[i].at_least)
			rc_violate(c, "a read at %" PRIu64 " misses %" PRIu64 ", committed before it was asked",
			           rd->index, c->reads[i].at_least);
		c->reads[i] = c->reads[--c->read_count];
		return;
	}
	rc_violate(c, "a read was answered that nobody asked, or twice");
}

/* §5.3: logs that share an entry share all before it. */
static inline void rc_check_logs(struct rc *c)
{
	for (size_t a = 0; a < c->n; a++) {
		for (size_t b = 0; b < a; b++) {
			const struct raft *ra = c->nodes[a].raft, *rb = c->nodes[b].raft;
			if (!ra || !rb)
				continue;
			struct raft_view va, vb;
			raft_view(ra, &va);
			raft_view(rb, &vb);
			raft_index i = va.last_index < vb.last_index ? va.last_index : vb.last_index;
			const raft_index lo = va.first_index > vb.first_index ? va.first_index : vb.first_index;
			while (i >= lo && raft_term_at(ra, i) != raft_term_at(rb, i))
				i--;
			for (; i >= lo; i--) {
				if (raft_term_at(ra, i) != raft_term_at(rb, i))
					rc_violate(c, "logs of n%zu and n%zu agree above %" PRIu64 " and differ there",
					           a + 1, b + 1, i);
			}
		}
	}
}

#endif
