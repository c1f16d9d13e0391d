/* §5.3 on the follower's side: taking entries from the leader of the term, and answering with what is durable.
 *
 * follow.match is how far this log agrees with the leader's; the answer is the lower of that and durable, so one answer
 * after a sync speaks for every append it covered. Nothing is acknowledged in one term that was promised in another:
 * follow_reset at each change.
 *
 * What lies at or below the commit index agrees with every leader there will ever be (leader completeness), whatever
 * of it this log still holds: appends that begin before it are cut to it, not compared.
 */
#include "raft/raft_internal.h"

void follow_reset(struct raft *r)
{
	r->follow.match = 0;
	r->follow.sent = 0;
	r->follow.round = 0;
	r->follow.due = false;
}

static bool is_sound_entry(const struct raft_msg *m, const struct entry *e, raft_index index, raft_term before)
{
	if (e->index != index || e->term < before || e->term == 0 || e->term > m->term)
		return false;
	if (e->len > ENTRY_PAYLOAD_MAX || (e->len > 0 && (!e->data || !e->slab)))
		return false;
	if (e->kind == ENTRY_NOOP || e->kind == ENTRY_COMMAND)
		return true;
	struct raft_conf conf;
	return e->kind == ENTRY_CONFIG && raft_conf_decode(e->data, e->len, &conf, NULL) == 0;
}

/* Are these bytes from outside entries that may stand behind (index, log_term)? */
static bool are_sound(const struct raft_msg *m)
{
	if (m->entry_count > 0 && !m->entries)
		return false;
	if ((m->index == 0) != (m->log_term == 0) || m->log_term > m->term)
		return false;
	raft_term before = m->log_term;
	for (size_t i = 0; i < m->entry_count; i++) {
		if (!is_sound_entry(m, &m->entries[i], m->index + 1 + i, before))
			return false;
		before = m->entries[i].term;
	}
	return true;
}

static void reject(struct raft *r, const struct raft_msg *m)
{
	const raft_index from = m->index > r->log.last ? r->log.last : m->index - 1;
	const raft_index hint = rlog_agree(&r->log, r->log.commit, from, m->log_term);
	const struct raft_msg reply = { .type = RAFT_MSG_APPEND_REPLY,
		                        .to = m->from,
		                        .index = m->index,
		                        .commit = r->log.last,
		                        .hint = hint,
		                        .hint_term = rlog_term_at(&r->log, hint),
		                        .round = r->follow.round };
	out_post_durable(r, &reply);
}

void follow_refuse_stale(struct raft *r, const struct raft_msg *m)
{
	/* Not to hold on to a deposed leader's company, but to depose it: it may be the only one who does not know. */
	const struct raft_msg reply = {
		.type = RAFT_MSG_APPEND_REPLY, .to = m->from, .index = m->index, .commit = r->log.last
	};
	out_post_durable(r, &reply);
}

/* Agrees with the leader up to the previous index. Appends what is new; false: there was nothing new. */
static bool take_entries(struct raft *r, const struct entry *v, size_t n)
{
	size_t i = 0;
	while (i < n && v[i].index <= r->log.last && rlog_term_at(&r->log, v[i].index) == v[i].term)
		i++;
	if (i == n)
		return false;
	if (v[i].index <= r->log.last)
		advance_cut(r, v[i].index);
	for (; i < n; i++) {
		struct raft_conf conf;
		const bool is_conf = v[i].kind == ENTRY_CONFIG;
		const int rc = is_conf ? raft_conf_decode(v[i].data, v[i].len, &conf, NULL) : 0;
		assert(rc == 0); /* are_sound has read it before */
		advance_appended(r, &v[i], is_conf ? &conf : NULL);
	}
	return true;
}

static bool agrees(const struct raft *r, const struct raft_msg *m)
{
	if (m->index > r->log.last)
		return false;
	return m->index == 0 || rlog_term_at(&r->log, m->index) == m->log_term || SIM_FAULT("no-log-matching");
}

void follow_on_append(struct raft *r, const struct raft_msg *m)
{
	struct follow *f = &r->follow;
	if (!are_sound(m))
		return;
	if (m->commit > f->commit)
		f->commit = m->commit;
	if (r->disk.failed)
		return;
	if (m->round > f->round) {
		f->round = m->round;
		f->due = true;
	}
	const struct entry *entries = m->entries;
	size_t n = m->entry_count;
	const raft_index end = m->index + n;
	if (m->index <= r->log.commit) {
		const raft_index known = r->log.commit - m->index;
		const size_t skip = known < n ? (size_t)known : n;
		if (skip > 0)
			entries += skip;
		n -= skip;
	} else if (!agrees(r, m)) {
		reject(r, m);
		return;
	}
	if (n > 0 && entries[0].term < rlog_term_at(&r->log, entries[0].index - 1))
		return; /* terms never fall along a log: no leader sent this */
	if (n == 0 || !take_entries(r, entries, n))
		f->due = true; /* no write will bring the answer */
	const raft_index agreed = end > r->log.commit ? end : r->log.commit;
	if (agreed > f->match)
		f->match = agreed;
	advance_committed(r, m->commit < agreed ? m->commit : agreed);
}

void follow_acknowledge(struct raft *r)
{
	struct follow *f = &r->follow;
	if (r->role != RAFT_FOLLOWER || r->leader == 0 || r->disk.failed || !disk_has_hard_state(r))
		return;
	raft_index match = f->match < r->log.durable ? f->match : r->log.durable;
	if (SIM_FAULT("ack-before-durable"))
		match = f->match;
	if (!f->due && match <= f->sent)
		return;
	const struct raft_msg reply = { .type = RAFT_MSG_APPEND_REPLY,
		                        .to = r->leader,
		                        .index = match,
		                        .commit = r->log.last,
		                        .hint = f->match,
		                        .round = f->round,
		                        .flag = true };
	out_post(r, &reply);
	f->sent = match;
	f->due = false;
}
