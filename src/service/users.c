/* Reads of users. What a hash is nobody is shown. */
#include "fsm/users.h"
#include "model/records.h"
#include "service/service_internal.h"

static int put_user(struct str record, struct arena *arena, struct json_writer *w)
{
	struct user u;
	int rc = record_read_json(&user_type, record, arena, &u, NULL, NULL);

	if (rc == 0)
		record_write_json(&user_type, &u, RECORD_PUBLIC, w);
	return rc;
}

int svc_user_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct str record;
	int rc = fsm_get_user(txn, rq->user, &record);

	if (rc == ERR_NOTFOUND) {
		svc_fail_refusal(a, FSM_USER_NOT_FOUND, "", 0);
		return 0;
	}
	if (rc == 0)
		rc = put_user(record, &s->arena, &w);
	if (rc != 0)
		return rc;
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

/* Narad's shape: all of them, a bare array. */
int svc_user_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	static const enum fsm_domain domains[] = { FSM_DOMAIN_USERS };
	struct json_writer w = { .out = &a->body };
	struct fsm_user_iter it = { 0 };
	struct str name, record;
	int rc = 0;

	if (svc_etag_list(txn, rq, domains, 1, a, &rc) || rc != 0)
		return rc;
	rc = fsm_user_iter_open(&it, txn);
	json_begin_array(&w);
	while (rc == 0 && (rc = fsm_user_iter_next(&it, &name, &record)) == 0) {
		arena_reset(&s->arena);
		rc = put_user(record, &s->arena, &w);
	}
	fsm_user_iter_close(&it);
	if (rc != ERR_NOTFOUND)
		return rc;
	json_end_array(&w);
	svc_answer_json(a, 200);
	return 0;
}
