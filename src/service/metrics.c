/* The node's series in the text exposition format. Read at scrape from what is published anyway: a scrape waits for
 * nobody, so it answers while Raft, disk or policies are stuck. Names are Narad's with veena_ before them, changed
 * where `promtool check metrics` asks. No topic is ever a label. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "fsm/assignments.h"
#include "service/service_internal.h"

/* Upper bounds in microseconds. */
static const uint64_t bounds_us[SVC_STAGE_BUCKETS] = { 50,   100,   250,   500,    1000,    2500,
	                                               5000, 10000, 50000, 250000, 1000000, 5000000 };

void svc_stage_add(struct svc_stage_stats *st, uint64_t ns)
{
	size_t b = 0;

	while (b < SVC_STAGE_BUCKETS && ns > bounds_us[b] * 1000)
		b++;
	/* One writer: load and store need not be one step. */
	atomic_store_explicit(&st->buckets[b], atomic_load_explicit(&st->buckets[b], memory_order_relaxed) + 1,
	                      memory_order_relaxed);
	atomic_store_explicit(&st->total_ns, atomic_load_explicit(&st->total_ns, memory_order_relaxed) + ns,
	                      memory_order_relaxed);
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_gauge(struct buf *out, const char *name, const char *help, double v)
{
	put_head(out, name, "gauge", help);
	buf_printf(out, "%s %.17g\n", name, v);
}

/* Label values: backslash, quote and newline are escaped. */
static void put_label(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '\\' || s.p[i] == '"')
			buf_putc(out, '\\');
		if (s.p[i] == '\n')
			buf_puts(out, "\\n");
		else
			buf_putc(out, s.p[i]);
	}
}

/* ---- Raft ---- */

static const char *role_label(enum raft_role role)
{
	return role == RAFT_LEADER ? "leader" : role == RAFT_FOLLOWER ? "follower" : "candidate";
}

static void put_raft(struct buf *out, struct svc *s, const struct node_status *st, raft_index applied)
{
	static const char *const states[] = { "follower", "candidate", "leader", "shutdown" };
	const char *state = st->stopped[0] != '\0' ? "shutdown" : role_label(st->role);
	int64_t contact_ms = node_contact_age_ms(s->shared->node);
	uint32_t voters = 0;

	for (uint32_t i = 0; i < st->conf.count; i++)
		voters += st->conf.servers[i].voter ? 1 : 0;
	put_head(out, "veena_raft_state", "gauge", "1 for the state this node is in.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		buf_printf(out, "veena_raft_state{state=\"%s\"} %d\n", states[i], strcmp(states[i], state) == 0);
	put_gauge(out, "veena_raft_term", "Current term.", (double)st->term);
	put_gauge(out, "veena_raft_last_log_index", "Last index in the log.", (double)st->last_index);
	put_gauge(out, "veena_raft_commit_index", "Highest index known committed.", (double)st->commit_index);
	put_gauge(out, "veena_raft_applied_index", "Highest index handed out for applying.", (double)st->handed_index);
	put_gauge(out, "veena_raft_fsm_pending", "Entries handed out and not yet applied.",
	          st->handed_index > applied ? (double)(st->handed_index - applied) : 0);
	put_gauge(out, "veena_raft_has_leader", "1 while a leader is known.", st->leader[0] != '\0');
	put_gauge(out, "veena_raft_last_contact_seconds", "Time since the leader was heard; 0 on the leader.",
	          st->role == RAFT_LEADER || contact_ms < 0 ? 0 : (double)contact_ms / 1000);
	put_gauge(out, "veena_raft_voters", "Voters in the configuration.", voters);
	put_gauge(out, "veena_raft_nonvoters", "Learners in the configuration.", st->conf.count - voters);
}

/* ---- the store ---- */

static int put_counts(struct buf *out, struct store_txn *txn)
{
	uint64_t topics, unplaced, placed, moving;
	int rc = fsm_count_topics(txn, &topics);

	if (rc == 0)
		rc = store_count(txn, STORE_X_UNPLACED, &unplaced);
	if (rc == 0)
		rc = fsm_count_assignments(txn, &placed);
	if (rc == 0)
		rc = fsm_count_moves(txn, &moving);
	if (rc != 0)
		return rc;
	put_gauge(out, "veena_topics", "Topics.", (double)topics);
	put_gauge(out, "veena_topics_unplaced", "Topics with a partition that has no owner.", (double)unplaced);
	put_head(out, "veena_partitions", "gauge", "Partitions with an owner.");
	buf_printf(out, "veena_partitions{state=\"placed\"} %" PRIu64 "\n", placed > moving ? placed - moving : 0);
	buf_printf(out, "veena_partitions{state=\"moving\"} %" PRIu64 "\n", moving);
	return 0;
}

static void put_members(struct buf *out, const struct fsm_members *m)
{
	uint64_t n[2][2] = { { 0, 0 }, { 0, 0 } };

	for (size_t i = 0; i < m->count; i++)
		n[m->rows[i].kind == FSM_KIND_BROKER][m->rows[i].alive]++;
	put_head(out, "veena_members", "gauge", "Members by kind and status.");
	for (int kind = 0; kind < 2; kind++) {
		for (int alive = 0; alive < 2; alive++)
			buf_printf(out, "veena_members{kind=\"%s\",status=\"%s\"} %" PRIu64 "\n",
			           fsm_member_kind_name(kind ? FSM_KIND_BROKER : FSM_KIND_SERVER),
			           alive ? "alive" : "dead", n[kind][alive]);
	}
}

static int put_member_partitions(struct buf *out, struct store_txn *txn, const struct fsm_members *m)
{
	put_head(out, "veena_member_partitions", "gauge", "Partitions that a member owns.");
	for (size_t i = 0; i < m->count; i++) {
		struct fsm_member_extra x;
		int rc = fsm_get_member_extra(txn, m->rows[i].id, &x);

		if (rc != 0)
			return rc;
		buf_puts(out, "veena_member_partitions{member=\"");
		put_label(out, m->rows[i].id);
		buf_printf(out, "\"} %" PRIu32 "\n", x.counts.owned);
	}
	return 0;
}

static void put_store(struct buf *out, struct svc *s, const struct node_status *st, raft_index applied)
{
	struct store_space space;

	store_get_space(fsm_store(s->shared->fsm), &space);
	put_gauge(out, "veena_metastore_fsm_bytes", "Length of the state machine's file.", (double)space.file_bytes);
	put_gauge(out, "veena_metastore_fsm_used_bytes", "Bytes of it that hold something.", (double)space.used_bytes);
	put_gauge(out, "veena_metastore_applied_index", "Index the state machine's file holds.", (double)applied);
	put_gauge(out, "veena_metastore_apply_stopped", "1 when this node stopped applying.", st->stopped[0] != '\0');
	put_gauge(out, "veena_metastore_snapshot_index", "Index of the newest snapshot.", (double)st->snapshot_index);
	put_gauge(out, "veena_metastore_oldest_read_seconds", "Age of the oldest read transaction in use.",
	          (double)fsm_oldest_read_ms(s->shared->fsm, clock_mono_ms()) / 1000);
}

/* ---- stages of writes ---- */

static const char *const stage_names[SVC_STAGE_END] = {
	[SVC_STAGE_CHECK] = "check",     [SVC_STAGE_PLACE] = "place",     [SVC_STAGE_COMMIT] = "commit",
	[SVC_STAGE_CONFIRM] = "confirm", [SVC_STAGE_FORWARD] = "forward", [SVC_STAGE_CATCHUP] = "catchup",
	[SVC_STAGE_JUDGE] = "judge",     [SVC_STAGE_HASH] = "hash",       [SVC_STAGE_TOTAL] = "total",
};

static uint64_t sum_bucket(const struct svc_shared *sh, size_t stage, size_t bucket)
{
	uint64_t n = 0;

	for (size_t i = 0; i < sh->thread_count; i++)
		n += atomic_load_explicit(&sh->threads[i]->stages[stage].buckets[bucket], memory_order_relaxed);
	return n;
}

static void put_stage(struct buf *out, const struct svc_shared *sh, size_t stage)
{
	static const char name[] = "veena_write_stage_seconds";
	const char *label = stage_names[stage];
	uint64_t n = 0, ns = 0;

	for (size_t b = 0; b < SVC_STAGE_BUCKETS; b++) {
		n += sum_bucket(sh, stage, b);
		buf_printf(out, "%s_bucket{stage=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, label,
		           (double)bounds_us[b] / 1e6, n);
	}
	n += sum_bucket(sh, stage, SVC_STAGE_BUCKETS);
	for (size_t i = 0; i < sh->thread_count; i++)
		ns += atomic_load_explicit(&sh->threads[i]->stages[stage].total_ns, memory_order_relaxed);
	buf_printf(out, "%s_bucket{stage=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, label, n);
	buf_printf(out, "%s_sum{stage=\"%s\"} %.9f\n", name, label, (double)ns / 1e9);
	buf_printf(out, "%s_count{stage=\"%s\"} %" PRIu64 "\n", name, label, n);
}

int svc_metrics_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct node_status *st = svc_node_status(s, NULL);
	const struct fsm_members *members;
	struct buf *out = &a->body;
	struct err e;
	int rc = fsm_reader_members(&s->reader, &members, &e);

	(void)rq;
	if (rc != 0)
		return rc;
	put_head(out, "veena_build_info", "gauge", "1, with the build as label.");
	buf_puts(out, "veena_build_info{build=\"");
	put_label(out, str_of(s->shared->build));
	buf_puts(out, "\"} 1\n");
	put_raft(out, s, st, a->index);
	put_store(out, s, st, a->index);
	rc = put_counts(out, txn);
	if (rc != 0)
		return rc;
	put_members(out, members);
	rc = put_member_partitions(out, txn, members);
	if (rc != 0)
		return rc;
	put_head(out, "veena_write_stage_seconds", "histogram", "Time that the stages of writes took.");
	for (size_t i = 0; i < SVC_STAGE_END; i++)
		put_stage(out, s->shared, i);
	a->status = 200;
	a->content_type = "text/plain; version=0.0.4; charset=utf-8";
	return 0;
}
