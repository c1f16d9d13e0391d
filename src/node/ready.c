/* Carries out what raft asks for, in the order raft asks for it. */
#include "node/node_internal.h"

#include <inttypes.h>

/* ---- traces, for people ---- */

static const char *role_name(uint64_t role)
{
	static const char *const names[] = { "follower", "precandidate", "candidate", "leader" };
	return role < sizeof(names) / sizeof(names[0]) ? names[role] : "?";
}

static const char *reason_name(uint64_t reason)
{
	switch ((enum raft_reason)reason) {
	case RAFT_REASON_TERM: return "a higher term was seen";
	case RAFT_REASON_QUORUM: return "no majority answered for an election timeout";
	case RAFT_REASON_DISK_SLOW: return "a log write is outstanding for two election timeouts";
	case RAFT_REASON_DISK_ERROR: return "a log write failed";
	case RAFT_REASON_LATE_TICK: return "this process did not run for an election timeout";
	case RAFT_REASON_REMOVED: return "no longer a voter";
	}
	return "?";
}

static const char *peer_name(const struct node *n, node_id id)
{
	const char *name = id == n->self.incarnation ? n->o.id : node_links_name(n, id);
	return name ? name : "?";
}

static void log_trace(const struct node *n, const struct raft_trace *t)
{
	static const char *const conf_steps[] = { "appended", "committed", "rolled back" };
	static const char *const transfer_steps[] = { "begun", "sent", "given up" };
	const char *peer = peer_name(n, t->peer);
	switch (t->kind) {
	case RAFT_TRACE_ROLE: log_info("raft.role", "role=%s term=%" PRIu64, role_name(t->a), t->b); break;
	case RAFT_TRACE_LEADER:
		log_info("raft.leader", "leader=%s term=%" PRIu64, t->peer ? peer : "none", t->b);
		break;
	case RAFT_TRACE_VOTE:
		log_debug("raft.vote", "peer=%s granted=%" PRIu64 " term=%" PRIu64, peer, t->a, t->b);
		break;
	case RAFT_TRACE_TRUNCATE: log_warn("raft.truncate", "index=%" PRIu64, t->a); break;
	case RAFT_TRACE_CONF:
		log_info("raft.conf", "index=%" PRIu64 " step=\"%s\"", t->a, t->b < 3 ? conf_steps[t->b] : "?");
		break;
	case RAFT_TRACE_STEP_DOWN: log_warn("raft.step_down", "reason=\"%s\"", reason_name(t->a)); break;
	case RAFT_TRACE_TRANSFER:
		log_info("raft.transfer", "peer=%s step=\"%s\"", peer, t->a < 3 ? transfer_steps[t->a] : "?");
		break;
	case RAFT_TRACE_REJECT:
		log_debug("raft.reject", "peer=%s index=%" PRIu64 " hint=%" PRIu64, peer, t->a, t->b);
		break;
	case RAFT_TRACE_SNAPSHOT:
		log_info("raft.snapshot", "peer=%s index=%" PRIu64 " step=%" PRIu64, peer, t->a, t->b);
		break;
	}
}

/* ---- effects ---- */

/* Time in the log never goes back, whoever leads: an own entry is stamped no earlier than any entry seen. */
static void note_times(struct node *n, const struct raft_persist *p)
{
	for (size_t i = 0; i < p->entry_count; i++) {
		const struct entry *e = &p->entries[i];
		const uint64_t ms = e->kind == ENTRY_COMMAND ? entry_time_ms(e->data, e->len) : 0;
		if (ms > n->last_time_ms)
			n->last_time_ms = ms;
	}
}

static void effects_of(struct node *n, const struct raft_ready *r)
{
	if (r->persist.ticket != 0) {
		note_times(n, &r->persist);
		node_log_put_persist(n, &r->persist);
	}
	for (size_t i = 0; i < r->msg_count; i++)
		(void)node_send_msg(n, &r->msgs[i]); /* raft sends again what was not answered */
	if (r->committed_count > 0)
		node_apply_hand_out(n, r->committed, r->committed_count);
	for (size_t i = 0; i < r->fetch_count; i++)
		node_fetch_start(n, &r->fetches[i]);
	for (size_t i = 0; i < r->read_count; i++)
		node_read_done(n, &r->reads[i]);
	for (size_t i = 0; i < r->snapshot_read_count; i++)
		node_send_start(n, &r->snapshot_reads[i]);
	if (r->install.index != 0)
		node_install_chunk(n, &r->install);
	for (size_t i = 0; i < r->trace_count; i++)
		log_trace(n, &r->traces[i]);
}

void node_carry_out(struct node *n)
{
	for (;;) {
		struct raft_ready r;
		raft_ready(n->raft, &r);
		n->raft_deadline = r.deadline_ms;
		if (!r.any)
			break;
		effects_of(n, &r);
		node_read_begin(n);
		node_look(n);
	}
}
