/* The node's series in the text exposition format. Read at scrape from what is published anyway: a scrape waits for
 * nobody, so it answers while Raft, disk or policies are stuck. Names are Narad's with veena_ before them, changed
 * where `promtool check metrics` asks. No topic is ever a label. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/prom.h"
#include "fsm/assignments.h"
#include "service/auth.h"
#include "service/service_internal.h"

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
	prom_put_head(out, "veena_raft_state", "gauge", "1 for the state this node is in.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		buf_printf(out, "veena_raft_state{state=\"%s\"} %d\n", states[i], strcmp(states[i], state) == 0);
	prom_put_gauge(out, "veena_raft_term", "Current term.", (double)st->term);
	prom_put_gauge(out, "veena_raft_last_log_index", "Last index in the log.", (double)st->last_index);
	prom_put_gauge(out, "veena_raft_commit_index", "Highest index known committed.", (double)st->commit_index);
	prom_put_gauge(out, "veena_raft_applied_index", "Highest index handed out for applying.",
	               (double)st->handed_index);
	prom_put_gauge(out, "veena_raft_fsm_pending", "Entries handed out and not yet applied.",
	               st->handed_index > applied ? (double)(st->handed_index - applied) : 0);
	prom_put_gauge(out, "veena_raft_has_leader", "1 while a leader is known.", st->leader[0] != '\0');
	prom_put_gauge(out, "veena_raft_last_contact_seconds", "Time since the leader was heard; 0 on the leader.",
	               st->role == RAFT_LEADER || contact_ms < 0 ? 0 : (double)contact_ms / 1000);
	prom_put_gauge(out, "veena_raft_voters", "Voters in the configuration.", voters);
	prom_put_gauge(out, "veena_raft_nonvoters", "Learners in the configuration.", st->conf.count - voters);
}

/* ---- the store ---- */

static int put_counts(struct buf *out, struct store_txn *txn)
{
	uint64_t topics, holed, unplaced, placed, orphans, moving;
	int rc = fsm_count_topics(txn, &topics);

	if (rc == 0)
		rc = fsm_count_unplaced(txn, &holed, &unplaced);
	if (rc == 0)
		rc = fsm_count_assignments(txn, &placed);
	if (rc == 0)
		rc = fsm_count_orphans(txn, &orphans);
	if (rc == 0)
		rc = fsm_count_moves(txn, &moving);
	if (rc != 0)
		return rc;
	prom_put_gauge(out, "veena_topics", "Topics.", (double)topics);
	prom_put_gauge(out, "veena_topics_unplaced", "Topics with a partition that has no owner.", (double)holed);
	prom_put_head(out, "veena_partitions", "gauge", "Partitions by what their rows say.");
	/* A row that no partition has yet may be moving too. */
	placed = placed > orphans + moving ? placed - orphans - moving : 0;
	buf_printf(out, "veena_partitions{state=\"unplaced\"} %" PRIu64 "\n", unplaced);
	buf_printf(out, "veena_partitions{state=\"placed\"} %" PRIu64 "\n", placed);
	buf_printf(out, "veena_partitions{state=\"moving\"} %" PRIu64 "\n", moving);
	return 0;
}

static void put_members(struct buf *out, const struct fsm_members *m)
{
	uint64_t n[2][2] = { { 0, 0 }, { 0, 0 } };

	for (size_t i = 0; i < m->count; i++)
		n[m->rows[i].kind == FSM_KIND_BROKER][m->rows[i].alive]++;
	prom_put_head(out, "veena_members", "gauge", "Members by kind and status.");
	for (int kind = 0; kind < 2; kind++) {
		for (int alive = 0; alive < 2; alive++)
			buf_printf(out, "veena_members{kind=\"%s\",status=\"%s\"} %" PRIu64 "\n",
			           fsm_member_kind_name(kind ? FSM_KIND_BROKER : FSM_KIND_SERVER),
			           alive ? "alive" : "dead", n[kind][alive]);
	}
}

static int put_member_partitions(struct buf *out, struct store_txn *txn, const struct fsm_members *m)
{
	prom_put_head(out, "veena_member_partitions", "gauge", "Partitions that a member owns.");
	for (size_t i = 0; i < m->count; i++) {
		struct fsm_member_extra x;
		int rc = fsm_get_member_extra(txn, m->rows[i].id, &x);

		if (rc != 0)
			return rc;
		buf_puts(out, "veena_member_partitions{member=\"");
		prom_put_label(out, m->rows[i].id);
		buf_printf(out, "\"} %" PRIu32 "\n", x.counts.owned);
	}
	return 0;
}

static void put_counter(struct buf *out, const char *name, const char *help, uint64_t v)
{
	prom_put_head(out, name, "counter", help);
	buf_printf(out, "%s %" PRIu64 "\n", name, v);
}

static void put_snapshots(struct buf *out, const struct node_snapshots *s)
{
	prom_put_gauge(out, "veena_metastore_snapshot_bytes", "Length of the newest snapshot.", (double)s->bytes);
	prom_put_gauge(out, "veena_metastore_snapshot_duration_seconds", "How long taking the last snapshot took.",
	               (double)s->last_ms / 1000);
	prom_put_gauge(out, "veena_metastore_snapshot_receiving_bytes",
	               "Bytes of an image from the leader that have come in so far; 0 when none is coming.",
	               (double)s->received);
	put_counter(out, "veena_metastore_snapshots_total", "Snapshots taken.", s->taken);
	put_counter(out, "veena_metastore_snapshot_failures_total", "Snapshots that could not be taken.", s->failures);
	put_counter(out, "veena_metastore_images_installed_total", "Images from a leader put in place.", s->installed);
	put_counter(out, "veena_metastore_images_refused_total", "Images from a leader that were not put in place.",
	            s->refused);
}

static void put_store(struct buf *out, struct svc *s, const struct node_status *st, raft_index applied)
{
	struct store_space space;

	store_get_space(fsm_store(s->shared->fsm), &space);
	prom_put_gauge(out, "veena_metastore_fsm_bytes", "Length of the state machine's file.",
	               (double)space.file_bytes);
	prom_put_gauge(out, "veena_metastore_fsm_used_bytes", "Bytes of it that hold something.",
	               (double)space.used_bytes);
	prom_put_gauge(out, "veena_metastore_applied_index", "Index the state machine's file holds.", (double)applied);
	prom_put_gauge(out, "veena_metastore_apply_stopped", "1 when this node stopped applying.",
	               st->stopped[0] != '\0');
	prom_put_gauge(out, "veena_metastore_snapshot_index", "Index of the newest snapshot.",
	               (double)st->snapshot_index);
	put_snapshots(out, &st->snapshots);
	prom_put_gauge(out, "veena_disk_low", "1 while the disk is so full that only deletes pass.", st->room.low);
	put_counter(out, "veena_metastore_scrub_rounds_total", "Times the whole store was compared with its digests.",
	            st->scrub_rounds);
	put_counter(out, "veena_metastore_undecodable_entries_total",
	            "Entries consumed without effect because their bytes do not decode.", st->undecodable);
	prom_put_gauge(out, "veena_metastore_oldest_read_seconds", "Age of the oldest read transaction in use.",
	               (double)fsm_oldest_read_ms(s->shared->fsm, clock_mono_ms()) / 1000);
}

/* ---- stages of writes ---- */

static const char *const stage_names[SVC_STAGE_END] = {
	[SVC_STAGE_CHECK] = "check",     [SVC_STAGE_PLACE] = "place",     [SVC_STAGE_COMMIT] = "commit",
	[SVC_STAGE_CONFIRM] = "confirm", [SVC_STAGE_FORWARD] = "forward", [SVC_STAGE_CATCHUP] = "catchup",
	[SVC_STAGE_JUDGE] = "judge",     [SVC_STAGE_HASH] = "hash",       [SVC_STAGE_TOTAL] = "total",
};

static void put_stage(struct buf *out, const struct svc_shared *sh, size_t stage)
{
	struct prom_histogram sum = { 0 };
	char labels[32];

	for (size_t i = 0; i < sh->thread_count; i++)
		prom_sum(&sum, &sh->threads[i]->stages[stage]);
	snprintf(labels, sizeof(labels), "stage=\"%s\"", stage_names[stage]);
	prom_put_histogram(out, "veena_write_stage_seconds", labels, &sum);
}

static void put_alarms(struct buf *out, const struct node_status *st)
{
	struct svc_policy_fault faults[SVC_POLICY_FAULTS_MAX];
	size_t held = 0;

	for (size_t i = 0; i < st->peer_count; i++)
		held += svc_holds_log(st, &st->peers[i]);

	prom_put_head(out, "veena_alarm", "gauge", "What status shows as alarms, by code.");
	buf_printf(out, "veena_alarm{code=\"policy_fault\"} %zu\n", svc_control_faults(faults));
	buf_printf(out, "veena_alarm{code=\"log_held\"} %zu\n", held);
}

static void put_auth(struct buf *out, struct svc_shared *sh)
{
	const struct auth_counts *n = auth_counts(sh->auth);

	prom_put_head(out, "veena_auth_failures_total", "counter", "Logins refused for a wrong password.");
	buf_printf(out, "veena_auth_failures_total %" PRIu64 "\n", atomic_load(&n->failed));
	prom_put_head(out, "veena_auth_throttled_total", "counter", "Logins refused after too many wrong passwords.");
	buf_printf(out, "veena_auth_throttled_total %" PRIu64 "\n", atomic_load(&n->throttled));
	prom_put_gauge(out, "veena_auth_verify_queued", "Passwords that wait for bcrypt.",
	               (double)bcrypt_waiting(&sh->bcrypt));
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
	prom_put_head(out, "veena_build_info", "gauge", "1, with the build as label.");
	buf_puts(out, "veena_build_info{build=\"");
	prom_put_label(out, str_of(s->shared->build));
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
	if (s->shared->auth)
		put_auth(out, s->shared);
	prom_put_head(out, "veena_write_stage_seconds", "histogram", "Time that the stages of writes took.");
	for (size_t i = 0; i < SVC_STAGE_END; i++)
		put_stage(out, s->shared, i);
	svc_control_put_metrics(out);
	put_alarms(out, st);
	a->status = 200;
	a->content_type = "text/plain; version=0.0.4; charset=utf-8";
	return 0;
}
