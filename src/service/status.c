/* GET /v1/status: where this node stands, and what it knows of the cluster. Answers on a node without a cluster too. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "model/commands.h"
#include "service/service_internal.h"

static const char *role_name(const struct node_status *st)
{
	switch (st->role) {
	case RAFT_LEADER: return "leader";
	case RAFT_CANDIDATE:
	case RAFT_PRECANDIDATE: return "candidate";
	case RAFT_FOLLOWER: break;
	}
	return "follower";
}

static void put_servers(struct json_writer *w, const char *key, const struct node_status *st, bool voters)
{
	json_key(w, key);
	json_begin_array(w);
	for (uint32_t i = 0; i < st->conf.count; i++) {
		if (st->conf.servers[i].voter == voters)
			json_put_cstr(w, st->conf.servers[i].name);
	}
	json_end_array(w);
}

/* Policies in force that fail, and the alarms of it: what stands behind them answers, and nobody may have noticed. The
 * array of alarms is left open. */
static void put_policy_faults(struct json_writer *w)
{
	struct svc_policy_fault faults[SVC_POLICY_FAULTS_MAX];
	const size_t count = svc_control_faults(faults);
	char text[640];

	json_key(w, "policy_faults");
	json_begin_array(w);
	for (size_t i = 0; i < count; i++) {
		json_begin_object(w);
		json_field_cstr(w, "kind", faults[i].kind);
		json_field_cstr(w, "source", faults[i].source);
		json_field_cstr(w, "message", faults[i].message);
		json_field_i64(w, "line", faults[i].line);
		json_field_u64(w, "at", faults[i].at_ms / 1000);
		json_field_u64(w, "count", faults[i].count);
		json_field_bool(w, "benched", faults[i].benched);
		json_end_object(w);
	}
	json_end_array(w);
	json_key(w, "alarms");
	json_begin_array(w);
	for (size_t i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "the %s policy (%s) fails%s: %.400s", faults[i].kind, faults[i].source,
		         faults[i].benched ? " and is not tried again until its text changes" : "", faults[i].message);
		json_begin_object(w);
		json_field_cstr(w, "code", "policy_fault");
		json_field_cstr(w, "message", text);
		json_field_u64(w, "since", faults[i].since_ms / 1000);
		json_end_object(w);
	}
}

bool svc_holds_log(const struct node_status *st, const struct raft_peer_view *p)
{
	return p->holds && p->holds + 1 >= st->first_index; /* a silent one is not waited for without end */
}

/* Followers for which this leader keeps its log: a disk that fills up has its reason there. */
static void put_holders(struct json_writer *w, const struct node_status *st)
{
	const uint64_t now_ms = clock_mono_ms();
	char text[200];

	for (size_t i = 0; i < st->peer_count; i++) {
		const struct raft_peer_view *p = &st->peers[i];
		const struct raft_server *s = svc_holds_log(st, p) ? raft_conf_find(&st->conf, p->id) : NULL;

		if (!s)
			continue;
		snprintf(text, sizeof(text),
		         "%s is behind: the log is kept from entry %" PRIu64 " on until it caught up", s->name,
		         p->holds + 1);
		json_begin_object(w);
		json_field_cstr(w, "code", "log_held");
		json_field_cstr(w, "message", text);
		json_field_u64(w, "since", (clock_wall_ms() - (now_ms - p->holds_since_ms)) / 1000);
		json_end_object(w);
	}
}

/* Types that this release knows and does not propose yet, each with the first who holds it back. */
static void put_held_back(struct json_writer *w, const struct svc *s, const struct node_status *st)
{
	json_key(w, "held_back");
	json_begin_array(w);
	for (unsigned type = COMMAND_LEGACY_MAX + 1; type <= s->shared->max_entry_type; type++) {
		const struct node_blocker *by = command_info(type) ? node_held_back_by(st, type) : NULL;

		if (!by)
			continue;
		json_begin_object(w);
		json_field_u64(w, "type", type);
		json_field_cstr(w, "by", by->id);
		json_field_cstr(w, "build", by->build);
		json_end_object(w);
	}
	json_end_array(w);
}

static void put_members(struct json_writer *w, const struct fsm_members *members)
{
	uint64_t alive = 0, dead = 0, draining = 0;

	for (size_t i = 0; i < members->count; i++) {
		if (members->rows[i].alive)
			alive++;
		else
			dead++;
		if (members->rows[i].draining)
			draining++;
	}
	json_key(w, "members");
	json_begin_object(w);
	json_field_u64(w, "alive", alive);
	json_field_u64(w, "dead", dead);
	json_field_u64(w, "draining", draining);
	json_end_object(w);
}

/* One look at the file system's own figures; what it does not say is 0. */
static void put_disk(struct json_writer *w, const char *dir)
{
	struct statvfs v;
	uint64_t free_bytes = 0, total = 0;

	if (dir && statvfs(dir, &v) == 0) {
		free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
		total = (uint64_t)v.f_blocks * v.f_frsize;
	}
	json_key(w, "disk");
	json_begin_object(w);
	json_field_u64(w, "free", free_bytes);
	json_field_u64(w, "total", total);
	json_end_object(w);
}

static void put_digest(struct json_writer *w, const struct fsm_digest *d)
{
	char hex[HEX64_SIZE];

	hex64(hex, d->total);
	json_key(w, "digest");
	json_begin_object(w);
	json_field_u64(w, "index", d->index);
	json_field_cstr(w, "value", hex); /* text: a JSON number of 64 bits loses digits in many clients */
	json_end_object(w);
}

static void put_raft(struct json_writer *w, struct svc *s, const struct node_status *st, raft_index applied)
{
	char hex[HEX64_SIZE] = "";
	char why[300];

	if (st->cluster_id != 0)
		hex64(hex, st->cluster_id);
	json_field_cstr(w, "id", st->id);
	json_field_cstr(w, "cluster_id", hex);
	json_field_cstr(w, "build", s->shared->build);
	json_field_cstr(w, "role", role_name(st));
	json_field_u64(w, "term", st->term);
	json_field_cstr(w, "leader", st->leader);
	json_field_cstr(w, "leader_addr", st->leader_addr);
	json_field_u64(w, "commit_index", st->commit_index);
	json_field_u64(w, "applied_index", applied);
	json_field_u64(w, "log_first", st->first_index);
	json_field_u64(w, "log_last", st->last_index);
	json_field_u64(w, "snapshot_index", st->snapshot_index);
	json_field_i64(w, "contact_ms", node_contact_age_ms(s->shared->node));
	json_field_bool(w, "caught_up", node_is_caught_up(s->shared->node, NULL, 0));
	json_field_bool(w, "ready", svc_is_ready(s, why, sizeof(why)));
	if (st->stopped[0] != '\0')
		json_field_cstr(w, "stopped", st->stopped);
	json_key(w, "entry_types");
	json_begin_object(w);
	json_field_u64(w, "max", s->shared->max_entry_type);
	json_field_u64(w, "cluster_min", st->cluster_min_type);
	json_end_object(w);
}

int svc_status_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct node_status *st = svc_node_status(s, NULL);
	const struct fsm_members *members;
	struct json_writer w = { .out = &a->body };
	struct fsm_digest digest;
	struct err e;
	int rc = fsm_reader_members(&s->reader, &members, &e);

	(void)rq;
	if (rc == 0)
		rc = fsm_get_digest(txn, &digest);
	if (rc != 0)
		return rc;
	json_begin_object(&w);
	put_raft(&w, s, st, a->index);
	put_held_back(&w, s, st);
	put_servers(&w, "voters", st, true);
	put_servers(&w, "learners", st, false);
	json_key(&w, "paused"); /* nothing can be paused yet */
	json_begin_array(&w);
	json_end_array(&w);
	put_policy_faults(&w);
	put_holders(&w, st);
	json_end_array(&w);
	put_digest(&w, &digest);
	put_disk(&w, s->shared->data_dir);
	put_members(&w, members);
	json_field_u64(&w, "uptime_s", (clock_mono_ms() - s->shared->started_ms) / 1000);
	json_end_object(&w);
	svc_answer_json(a, 200);
	return 0;
}
