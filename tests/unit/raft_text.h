/* What cores say and do, as lines for people: shared by the tests of src/raft. Included, not linked.
 *
 * Server n3 has the id 3; its directory, wiped once, 103, written n3'.
 */
#ifndef TESTS_UNIT_RAFT_TEXT_H
#define TESTS_UNIT_RAFT_TEXT_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "raft/raft.h"

static inline void text_id(struct buf *b, node_id id)
{
	if (id == 0) {
		buf_puts(b, "-");
		return;
	}
	buf_printf(b, "n%" PRIu64, id % 100);
	for (node_id wiped = id / 100; wiped > 0; wiped--)
		buf_putc(b, '\'');
}

static inline const char *text_msg_type(enum raft_msg_type t)
{
	static const char *const names[] = { "?",          "prevote",    "prevote-reply", "vote",
		                             "vote-reply", "append",     "append-reply",  "timeout-now",
		                             "read",       "read-reply", "snapshot",      "snapshot-reply" };
	return names[t];
}

static inline void text_entries(struct buf *b, const struct entry *v, size_t n)
{
	if (n == 0)
		return;
	buf_printf(b, " [");
	for (size_t i = 0; i < n; i++) {
		/* index.term, runs of one term shortened */
		size_t j = i;
		while (j + 1 < n && v[j + 1].term == v[i].term)
			j++;
		buf_printf(b, "%s%" PRIu64, i ? " " : "", v[i].index);
		if (j > i)
			buf_printf(b, "..%" PRIu64, v[j].index);
		buf_printf(b, " t%" PRIu64, v[i].term);
		i = j;
	}
	buf_puts(b, "]");
}

/* "append t3 prev 4 t2 [5..6 t3] commit 4" */
static inline void text_msg(struct buf *b, const struct raft_msg *m)
{
	buf_printf(b, "%s t%" PRIu64, text_msg_type(m->type), m->term);
	switch (m->type) {
	case RAFT_MSG_PREVOTE:
	case RAFT_MSG_VOTE:
		buf_printf(b, " last %" PRIu64 " t%" PRIu64 "%s", m->index, m->log_term, m->flag ? " handed-over" : "");
		break;
	case RAFT_MSG_PREVOTE_REPLY:
	case RAFT_MSG_VOTE_REPLY: buf_puts(b, m->flag ? " yes" : " no"); break;
	case RAFT_MSG_APPEND:
		buf_printf(b, " prev %" PRIu64 " t%" PRIu64, m->index, m->log_term);
		text_entries(b, m->entries, m->entry_count);
		buf_printf(b, " commit %" PRIu64, m->commit);
		if (m->round)
			buf_printf(b, " round %" PRIu64, m->round);
		break;
	case RAFT_MSG_APPEND_REPLY:
		if (m->flag)
			buf_printf(b, " match %" PRIu64, m->index);
		if (m->flag && m->hint != m->index)
			buf_printf(b, " agrees %" PRIu64, m->hint);
		if (!m->flag)
			buf_printf(b, " no %" PRIu64 " hint %" PRIu64 " t%" PRIu64, m->index, m->hint, m->hint_term);
		buf_printf(b, " last %" PRIu64, m->commit);
		if (m->round)
			buf_printf(b, " round %" PRIu64, m->round);
		break;
	case RAFT_MSG_TIMEOUT_NOW:
	case RAFT_MSG_READ: break;
	case RAFT_MSG_READ_REPLY:
		if (m->flag)
			buf_printf(b, " index %" PRIu64, m->index);
		else
			buf_puts(b, " no");
		break;
	case RAFT_MSG_SNAPSHOT:
		buf_printf(b, " index %" PRIu64 " t%" PRIu64 " bytes %" PRIu64 "+%zu/%" PRIu64 "%s", m->index,
		           m->log_term, m->offset, m->data_len, m->size, m->conf ? " conf" : "");
		break;
	case RAFT_MSG_SNAPSHOT_REPLY:
		if (m->flag)
			buf_printf(b, " index %" PRIu64 " wants %" PRIu64, m->index, m->offset);
		else
			buf_printf(b, " index %" PRIu64 " no", m->index);
		break;
	}
}

static inline void text_persist(struct buf *b, const struct raft_persist *p)
{
	buf_puts(b, "persist");
	if (p->hard_state) {
		buf_printf(b, " term %" PRIu64 " vote ", p->term);
		text_id(b, p->vote);
	}
	if (p->reset_to)
		buf_printf(b, " reset to %" PRIu64 " t%" PRIu64, p->reset_to, p->reset_term);
	text_entries(b, p->entries, p->entry_count);
}

static inline void text_trace(struct buf *b, const struct raft_trace *t)
{
	static const char *const roles[] = { "follower", "precandidate", "candidate", "leader" };
	static const char *const reasons[] = { "?",          "higher term", "no quorum",        "disk slow",
		                               "disk error", "late tick",   "no longer a voter" };
	static const char *const confs[] = { "appended", "committed", "rolled back" };
	static const char *const transfers[] = { "begun", "sent", "given up" };
	static const char *const snapshots[] = { "begun", "done", "failed" };
	switch (t->kind) {
	case RAFT_TRACE_ROLE: buf_printf(b, "is %s in term %" PRIu64, roles[t->a], t->b); break;
	case RAFT_TRACE_LEADER:
		buf_puts(b, "follows ");
		text_id(b, t->peer);
		break;
	case RAFT_TRACE_VOTE:
		buf_puts(b, t->a ? "votes for " : "refuses ");
		text_id(b, t->peer);
		buf_printf(b, " in term %" PRIu64, t->b);
		break;
	case RAFT_TRACE_TRUNCATE: buf_printf(b, "cuts its log at %" PRIu64, t->a); break;
	case RAFT_TRACE_CONF: buf_printf(b, "configuration %" PRIu64 " %s", t->a, confs[t->b]); break;
	case RAFT_TRACE_STEP_DOWN: buf_printf(b, "steps down: %s", reasons[t->a]); break;
	case RAFT_TRACE_TRANSFER:
		buf_puts(b, "transfer to ");
		text_id(b, t->peer);
		buf_printf(b, " %s", transfers[t->a]);
		break;
	case RAFT_TRACE_REJECT:
		buf_puts(b, "is refused by ");
		text_id(b, t->peer);
		buf_printf(b, " at %" PRIu64 ", hint %" PRIu64, t->a, t->b);
		break;
	case RAFT_TRACE_SNAPSHOT:
		buf_printf(b, "snapshot %" PRIu64 " with ", t->a);
		text_id(b, t->peer);
		buf_printf(b, " %s", snapshots[t->b]);
		break;
	}
}

static inline void text_conf(struct buf *b, const struct raft_conf *c)
{
	for (uint32_t i = 0; c && i < c->count; i++) {
		buf_puts(b, i ? " " : "");
		text_id(b, c->servers[i].id);
		buf_puts(b, c->servers[i].voter ? "" : c->servers[i].staged ? "(staged)" : "(learner)");
	}
}

/* Servers n1.. ; the last `learners` of them are learners. */
static inline struct raft_conf text_make_conf(uint32_t count, uint32_t learners)
{
	struct raft_conf c = { .count = count };
	for (uint32_t i = 0; i < count; i++) {
		struct raft_server *s = &c.servers[i];
		s->id = i + 1;
		s->voter = i + learners < count;
		snprintf(s->name, sizeof(s->name), "n%u", i + 1);
		snprintf(s->addr, sizeof(s->addr), "10.0.0.%u:7943", i + 1);
	}
	return c;
}

/* Compares with tests/raft/<name>.txt; REWRITE=1 writes it anew, and the difference is for a person to look at. */
static inline void text_expect_file(struct buf *b, const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "tests/raft/%s.txt", name);
	if (getenv("REWRITE")) {
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
		assert_int_equal(fclose(f), 0);
		return;
	}
	struct buf want = { 0 };
	FILE *f = fopen(path, "r");
	if (!f)
		fail_msg("%s is missing: run once with REWRITE=1", path);
	size_t n;
	do {
		n = fread(buf_reserve(&want, 4096), 1, 4096, f);
		buf_advance(&want, n);
	} while (n > 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(buf_cstr(b), buf_cstr(&want));
	buf_fini(&want);
}

#endif
