/* One core, its messages written by hand and its effects read as text. Included by tests, not linked. */
#ifndef TESTS_UNIT_RAFT_SOLO_H
#define TESTS_UNIT_RAFT_SOLO_H

#include "base/mem.h"
#include "raft_text.h"

#define SOLO_TICKETS_MAX 64

struct solo {
	struct raft *raft;
	uint64_t now_ms;
	uint64_t tickets[SOLO_TICKETS_MAX]; /* outstanding */
	size_t ticket_count;
	bool disk_held;  /* tickets wait for solo_disk */
	bool apply_held; /* committed entries wait for raft_applied */
	bool quiet;      /* effects are carried out, not written down */
	struct buf text; /* what happened since the last look */
	struct buf seen;
};

static inline struct raft_params solo_params(void)
{
	struct raft_params p;
	raft_params_default(&p);
	p.self = 1;
	p.seed = 7;
	return p;
}

static inline struct solo *solo_new(const struct raft_params *p, const struct raft_start *start)
{
	struct solo *s = mem_zalloc(sizeof(*s));
	s->now_ms = 1000;
	s->raft = raft_new(p, start, s->now_ms);
	raft_check(s->raft);
	return s;
}

static inline void solo_free(struct solo *s)
{
	raft_free(s->raft);
	buf_fini(&s->text);
	buf_fini(&s->seen);
	mem_free(s);
}

static inline void solo_line(struct solo *s)
{
	if (s->quiet)
		buf_clear(&s->text);
	else
		buf_putc(&s->text, '\n');
}

static inline void solo_note(struct solo *s, const struct raft_ready *rd)
{
	struct buf *b = &s->text;
	for (size_t i = 0; i < rd->trace_count; i++) {
		text_trace(b, &rd->traces[i]);
		solo_line(s);
	}
	if (rd->persist.ticket) {
		text_persist(b, &rd->persist);
		solo_line(s);
	}
	for (size_t i = 0; i < rd->msg_count; i++) {
		buf_puts(b, "> ");
		text_id(b, rd->msgs[i].to);
		buf_putc(b, ' ');
		text_msg(b, &rd->msgs[i]);
		solo_line(s);
	}
	if (rd->committed_count) {
		buf_puts(b, "commit");
		text_entries(b, rd->committed, rd->committed_count);
		solo_line(s);
	}
	for (size_t i = 0; i < rd->fetch_count; i++) {
		buf_puts(b, "fetch for ");
		text_id(b, rd->fetches[i].peer);
		buf_printf(b, " %" PRIu64 "..%" PRIu64, rd->fetches[i].lo, rd->fetches[i].hi);
		solo_line(s);
	}
	for (size_t i = 0; i < rd->read_count; i++) {
		buf_printf(b, "read %" PRIu64 ": %s %" PRIu64, rd->reads[i].ctx, err_name(rd->reads[i].status),
		           rd->reads[i].index);
		solo_line(s);
	}
	for (size_t i = 0; i < rd->snapshot_read_count; i++) {
		const struct raft_snapshot_read *sr = &rd->snapshot_reads[i];
		buf_puts(b, "image for ");
		text_id(b, sr->peer);
		buf_printf(b, " %" PRIu64 " from byte %" PRIu64 "%s", sr->index, sr->offset,
		           sr->msg.conf ? " conf" : "");
		solo_line(s);
	}
	if (rd->install.index) {
		buf_printf(b, "install %" PRIu64 " t%" PRIu64 " bytes %" PRIu64 "+%zu/%" PRIu64 "%s", rd->install.index,
		           rd->install.term, rd->install.offset, rd->install.data_len, rd->install.size,
		           rd->install.last ? " last" : "");
		solo_line(s);
	}
}

static inline void solo_disk(struct solo *s, size_t n, int status);

/* Carries out what the core wants, until it wants nothing. */
static inline void solo_drain(struct solo *s)
{
	struct raft_ready rd;
	for (;;) {
		raft_check(s->raft);
		raft_ready(s->raft, &rd);
		raft_check(s->raft);
		if (!rd.any)
			return;
		solo_note(s, &rd);
		const raft_index applied = rd.committed_count ? rd.committed[rd.committed_count - 1].index : 0;
		if (rd.persist.ticket) {
			assert_true(s->ticket_count < SOLO_TICKETS_MAX);
			s->tickets[s->ticket_count++] = rd.persist.ticket;
		}
		if (applied && !s->apply_held)
			raft_applied(s->raft, applied);
		if (!s->disk_held && s->ticket_count > 0)
			solo_disk(s, s->ticket_count, 0);
	}
}

/* The disk finishes the n oldest writes. */
static inline void solo_disk(struct solo *s, size_t n, int status)
{
	assert_true(n <= s->ticket_count);
	for (size_t i = 0; i < n; i++)
		raft_persisted(s->raft, s->tickets[i], status);
	memmove(s->tickets, s->tickets + n, (s->ticket_count - n) * sizeof(s->tickets[0]));
	s->ticket_count -= n;
}

/* What happened since the last look; borrowed until the next. */
static inline const char *solo_look(struct solo *s)
{
	solo_drain(s);
	buf_clear(&s->seen);
	buf_put(&s->seen, s->text.data, s->text.len);
	buf_clear(&s->text);
	return buf_cstr(&s->seen);
}

#define solo_expect(s, want) assert_string_equal(solo_look(s), want)

static inline void solo_forget(struct solo *s)
{
	(void)solo_look(s);
}

static inline void solo_tick(struct solo *s, uint64_t ms)
{
	while (ms > 0) {
		const uint64_t step = ms < 50 ? ms : 50;
		s->now_ms += step;
		ms -= step;
		raft_tick(s->raft, s->now_ms);
		solo_drain(s);
	}
}

/* Ticks until the core campaigns by itself; ends with it as precandidate. */
static inline void solo_time_out(struct solo *s)
{
	struct raft_view v;
	raft_view(s->raft, &v);
	for (int i = 0; i < 100 && v.role != RAFT_PRECANDIDATE && v.role != RAFT_LEADER; i++) {
		solo_tick(s, 20);
		raft_view(s->raft, &v);
	}
}

static inline void solo_step(struct solo *s, struct raft_msg m)
{
	m.to = m.to ? m.to : 1;
	raft_step(s->raft, &m);
	raft_check(s->raft);
}

#define STEP(s, ...) solo_step((s), (struct raft_msg){ __VA_ARGS__ })

/* n entries of one term from index on, each with len bytes of payload; caller unrefs with solo_drop. */
static inline struct entry *solo_entries(raft_index index, raft_term term, size_t n, size_t len)
{
	struct entry *v = mem_zalloc((n ? n : 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		v[i] = (struct entry){ .index = index + i, .term = term, .kind = ENTRY_COMMAND, .len = (uint32_t)len };
		if (len > 0) {
			v[i].slab = slab_new(len);
			memset(v[i].slab->data, (int)(index + i), len);
			v[i].slab->len = len;
			v[i].data = v[i].slab->data;
		}
	}
	return v;
}

static inline void solo_drop(struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		entry_unref(&v[i]);
	mem_free(v);
}

/* An append with n entries of one term behind (prev, prev_term). */
static inline void solo_append(struct solo *s, node_id from, raft_term term, raft_index prev, raft_term prev_term,
                               raft_term entry_term, size_t n, raft_index commit)
{
	struct entry *v = solo_entries(prev + 1, entry_term, n, 8);
	STEP(s, .type = RAFT_MSG_APPEND, .from = from, .term = term, .index = prev, .log_term = prev_term,
	     .commit = commit, .entries = v, .entry_count = n);
	solo_drop(v, n);
}

static inline void solo_ack(struct solo *s, node_id from, raft_term term, raft_index match)
{
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = from, .term = term, .index = match, .commit = match,
	     .flag = true);
}

static inline int solo_propose(struct solo *s, size_t n, size_t len)
{
	struct entry *v = solo_entries(0, 0, n, len);
	const int rc = raft_propose(s->raft, v, n);
	solo_drop(v, n);
	return rc;
}

/* A whole log as the core finds it at start: ranges of terms, entries of 8 bytes from tail_first on. */
struct solo_log {
	struct raft_term_range ranges[8];
	size_t range_count;
	struct entry *tail;
	size_t tail_count;
	struct raft_conf conf;
};

/* Fills first_index, last_index, terms and tail of `start` from ranges (ended by first 0). */
static inline void solo_log_init(struct solo_log *l, struct raft_start *start, const struct raft_term_range *ranges,
                                 raft_index last, raft_index tail_first)
{
	*l = (struct solo_log){ 0 };
	for (; ranges[l->range_count].first; l->range_count++)
		l->ranges[l->range_count] = ranges[l->range_count];
	start->first_index = l->ranges[0].first;
	start->last_index = last;
	start->terms = l->ranges;
	start->term_count = l->range_count;
	if (tail_first > last)
		return;
	l->tail_count = (size_t)(last - tail_first) + 1;
	l->tail = solo_entries(tail_first, 1, l->tail_count, 8);
	for (size_t i = 0; i < l->tail_count; i++) {
		for (size_t j = 0; j < l->range_count; j++) {
			if (l->ranges[j].first <= l->tail[i].index)
				l->tail[i].term = l->ranges[j].term;
		}
	}
	start->tail = l->tail;
	start->tail_count = l->tail_count;
}

static inline void solo_log_fini(struct solo_log *l)
{
	solo_drop(l->tail, l->tail_count);
}

/* A core of a cluster n1..n<count> whose log holds the configuration at 1 and entries of term 1 up to `last`. */
static inline struct solo *solo_member_with(const struct raft_params *p, uint32_t count, uint32_t learners,
                                            raft_index last)
{
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(count, learners);
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, last, 1);
	struct solo *s = solo_new(p, &start);
	solo_log_fini(&log);
	return s;
}

static inline struct solo *solo_member(uint32_t count, uint32_t learners, raft_index last)
{
	const struct raft_params p = solo_params();
	return solo_member_with(&p, count, learners, last);
}

/* Makes it the leader of the term after the present one, with the votes of everybody; quiet about it. Its no-op is
 * appended and durable, not yet acknowledged. */
static inline void solo_make_leader(struct solo *s)
{
	struct raft_view v;
	s->quiet = true;
	solo_time_out(s);
	raft_view(s->raft, &v);
	const raft_term term = v.term + 1;
	for (int pass = 0; pass < 2 && v.role != RAFT_LEADER; pass++) {
		const struct raft_conf conf = *v.conf;
		for (uint32_t i = 0; i < conf.count; i++) {
			if (conf.servers[i].id == 1 || !conf.servers[i].voter)
				continue;
			STEP(s, .type = pass ? RAFT_MSG_VOTE_REPLY : RAFT_MSG_PREVOTE_REPLY, .from = conf.servers[i].id,
			     .term = term, .flag = true);
			solo_drain(s);
		}
		raft_view(s->raft, &v);
	}
	assert_int_equal(v.role, RAFT_LEADER);
	solo_drain(s);
	s->quiet = false;
	buf_clear(&s->text);
}

static inline struct raft_view solo_view(const struct solo *s)
{
	struct raft_view v;
	raft_view(s->raft, &v);
	return v;
}

#endif
