/* What is answered from this replica, at one index. */
#include <stdio.h>
#include <string.h>

#include "fsm/changes.h"
#include "model/records.h"
#include "service/auth.h"

typedef int (*read_fn)(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);

static const struct {
	read_fn read;
	bool needs_replica; /* 503 not_ready while the node holds no configuration */
} reads[SVC_OP_END] = {
	[SVC_TOPIC_LIST] = { svc_topic_list, true },
	[SVC_TOPIC_GET] = { svc_topic_get, true },
	[SVC_CHILD_LIST] = { svc_child_list, true },
	[SVC_SCHEMA_LIST] = { svc_schema_list, true },
	[SVC_SCHEMA_GET] = { svc_schema_get, true },
	[SVC_TOPIC_ASSIGNMENTS] = { svc_topic_assignments, true },
	[SVC_TOPIC_ASSIGNMENT] = { svc_topic_assignment, true },
	[SVC_ASSIGNMENT_LIST] = { svc_assignment_list, true },
	[SVC_CONFIRM_TOPIC] = { svc_confirm_topic, true },
	[SVC_CONFIRM_PARTITION] = { svc_confirm_partition, true },
	[SVC_MOVE_LIST] = { svc_move_list, true },
	[SVC_MEMBER_LIST] = { svc_member_list, true },
	[SVC_MEMBER_GET] = { svc_member_get, true },
	[SVC_SERVER_LIST] = { svc_server_list, true },
	[SVC_SETTINGS_GET] = { svc_settings_get, true },
	[SVC_WATCH] = { svc_watch_get, true },
	[SVC_REMOTE_LIST] = { svc_remote_list, true },
	[SVC_REMOTE_TEST] = { svc_remote_test, true },
	[SVC_REMOTE_GET] = { svc_remote_get, true },
	[SVC_USER_LIST] = { svc_user_list, true },
	[SVC_USER_GET] = { svc_user_get, true },
	[SVC_STATUS] = { svc_status_get, false },
	[SVC_METRICS] = { svc_metrics_get, false },
};

static void fail_not_ready(struct svc_answer *a, const char *why)
{
	svc_fail(a, 503, "not_ready", NULL, "%s", why);
}

/* A grant on its name, or being its owner. Of a topic that is not there the read itself speaks. */
static int may_read_topic(struct svc *s, struct store_txn *txn, struct str name, bool *may)
{
	struct fsm_topic stored;
	struct topic rec = { 0 };
	int rc;

	*may = rights_may_any(s->rights, name);
	if (*may)
		return 0;
	rc = fsm_get_topic(txn, name, &stored);
	if (rc == 0)
		rc = record_read_json(&topic_type, stored.record, &s->arena, &rec, NULL, NULL);
	*may = rc == ERR_NOTFOUND || (rc == 0 && rights_may_manage(s->rights, rec.owner));
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* The step stands before every read, so that none can be added without passing it. */
static int may_read(struct svc *s, struct store_txn *txn, const struct svc_request *rq, bool *may, struct svc_answer *a)
{
	s->rights = &rights_of_all;
	*may = true;
	if (rq->grant == SVC_GRANT_NONE)
		return 0;
	int rc = auth_check(s, txn, rq, &s->rights, may, a);

	if (rc != 0 || !*may || rq->grant != SVC_GRANT_READ)
		return rc;
	rc = may_read_topic(s, txn, rq->topic, may);
	if (rc == 0 && !*may)
		svc_fail(a, 403, "forbidden", NULL, "reading this topic needs a grant on its name, or to own it");
	return rc;
}

void svc_read_answer(struct svc *s, const struct svc_request *rq, struct svc_answer *a)
{
	struct store_txn *txn;
	struct err e = { 0 };
	bool may;

	if (rq->op == SVC_HEALTHZ || rq->op == SVC_READYZ) {
		if (rq->op == SVC_HEALTHZ)
			svc_healthz(s, a);
		else
			svc_readyz(s, a);
		return;
	}
	if (reads[rq->op].needs_replica && !svc_may_read_replica(s, rq, a))
		return;
	if (fsm_read(&s->reader, &txn, &e) != 0) {
		fail_not_ready(a, "the replica is being replaced; try again");
		return;
	}
	a->index = fsm_reader_index(&s->reader);
	arena_reset(&s->arena);
	int rc = may_read(s, txn, rq, &may, a);

	if (rc == 0 && may)
		rc = reads[rq->op].read(s, txn, rq, a);

	if (rc != 0) {
		log_error("svc.read", "op=%d code=%s error=\"%s\"", (int)rq->op, err_name(rc),
		          store_txn_error(txn)->msg);
		a->etag[0] = '\0';
		svc_fail(a, 503, "not_ready", NULL, "this node cannot read its replica; ask another node");
	}
	svc_etag_none_match(rq, a);
}

/* ---- health ---- */

void svc_healthz(struct svc *s, struct svc_answer *a)
{
	bool stopping = svc_node_status(s, NULL)->stopping;

	buf_puts(&a->body, stopping ? "{\"status\":\"shutting down\"}" : "{\"status\":\"ok\"}");
	svc_answer_json(a, stopping ? 503 : 200);
}

bool svc_was_caught_up(struct svc *s)
{
	if (!atomic_load(&s->shared->caught_up_once) && node_is_caught_up(s->shared->node, NULL, 0))
		atomic_store(&s->shared->caught_up_once, true);
	return atomic_load(&s->shared->caught_up_once);
}

/* In Narad's order: halted, no leader, no contact yet, contact too old, not caught up. Judged anew for each request;
 * only "was caught up once since start" stays. */
bool svc_is_ready(struct svc *s, char *why, size_t cap)
{
	const struct node_status *st = svc_node_status(s, NULL);
	int64_t contact_ms = node_contact_age_ms(s->shared->node);
	const char *text = "";
	char contact[64];

	snprintf(contact, sizeof(contact), "last contact %lld.%03llds ago", (long long)contact_ms / 1000,
	         (long long)contact_ms % 1000);
	if (st->stopped[0] != '\0')
		text = st->stopped;
	else if (st->stopping)
		text = "shutting down";
	else if (st->leader[0] == '\0')
		text = "no leader known";
	else if (contact_ms < 0)
		text = "no contact yet";
	else if (contact_ms > 5000)
		text = contact;
	else if (!svc_was_caught_up(s))
		text = "not caught up since start";
	else if (s->shared->auth && fsm_domain_version(s->shared->fsm, FSM_DOMAIN_USERS) == 0)
		text = "no users yet";
	snprintf(why, cap, "%s", text);
	return text[0] == '\0';
}

void svc_readyz(struct svc *s, struct svc_answer *a)
{
	char why[300];

	if (svc_is_ready(s, why, sizeof(why))) {
		buf_puts(&a->body, "{\"status\":\"ready\"}");
		svc_answer_json(a, 200);
		return;
	}
	svc_fail(a, 503, "not_ready", NULL, "metastore: node is not ready: %s", why);
}
