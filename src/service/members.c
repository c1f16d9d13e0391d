/* The members as Narad shows them, and what veena adds: kind, placeable, tags, labels. */
#include <string.h>

#include "base/clock.h"
#include "fsm/members.h"
#include "model/records.h"
#include "service/service_internal.h"

/* Does the tags object hold this pair? Tags are flat strings. */
static bool has_tag(struct str tags, struct str key, struct str value, struct arena *arena)
{
	struct json_reader r;

	json_reader_init(&r, tags, 0);
	if (json_next(&r) != JSON_OBJECT)
		return false;
	while (json_next(&r) == JSON_KEY) {
		bool same = str_eq(json_token_str(&r, arena), key);
		enum json_event ev = json_next(&r);

		if (same)
			return ev == JSON_STRING && str_eq(json_token_str(&r, arena), value);
		if (!json_skip(&r, ev))
			break;
	}
	return false;
}

/* The age is no part of the tag. */
static void put_member(struct svc_answer *a, const struct member *m, const struct fsm_member_extra *x,
                       const struct node_status *st, uint64_t now_s, uint64_t *tag)
{
	size_t from = a->body.len;
	struct json_writer w = { .out = &a->body };
	char name[RAFT_NAME_MAX + 1] = "";
	const struct raft_server *server = NULL;

	if (m->id.len <= RAFT_NAME_MAX) {
		memcpy(name, m->id.p, m->id.len);
		server = raft_conf_find_name(&st->conf, name);
	}
	json_begin_object(&w);
	json_field_str(&w, "id", m->id);
	json_field_str(&w, "addr", m->addr);
	json_field_str(&w, "status", m->status);
	json_field_bool(&w, "draining", m->draining);
	json_field_u64(&w, "owned_partitions", x->counts.owned);
	json_field_u64(&w, "outbound_moves", x->counts.leaving);
	json_field_bool(&w, "voter", server && server->voter);
	json_field_bool(&w, "leader", name[0] != '\0' && strcmp(st->leader, name) == 0);
	*tag = svc_etag_fold(*tag, a, from);
	json_field_u64(
	    &w, "heartbeat_age_seconds",
	    m->last_heartbeat > 0 && (uint64_t)m->last_heartbeat < now_s ? now_s - (uint64_t)m->last_heartbeat : 0);
	from = a->body.len;
	fsm_write_member_extra(&w, x);
	json_end_object(&w);
	*tag = svc_etag_fold(*tag, a, from);
}

static int put_members(struct svc *s, struct fsm_member_iter *it, struct store_txn *txn, const struct svc_request *rq,
                       struct svc_answer *a)
{
	const struct node_status *st = svc_node_status(s, NULL);
	uint64_t now_s = clock_wall_ms() / 1000;
	struct fsm_member_extra x;
	struct str id, record;
	struct member m;
	bool any = false;
	uint64_t tag = 0;
	int rc;

	while ((rc = fsm_member_iter_next(it, &id, &record)) == 0) {
		rc = record_read_json(&member_type, record, &s->arena, &m, NULL, NULL);
		if (rc == 0)
			rc = fsm_get_member_extra(txn, id, &x);
		if (rc != 0)
			return rc;
		if (rq->tag_key.p && !has_tag(x.tags, rq->tag_key, rq->tag_value, &s->arena))
			continue;
		if (any)
			buf_putc(&a->body, ',');
		any = true;
		put_member(a, &m, &x, st, now_s, &tag);
	}
	svc_etag_hash(a, tag);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int svc_member_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct fsm_member_iter it = { 0 };
	int rc = fsm_member_iter_open(&it, txn, (struct str){ "", 0 });

	buf_puts(&a->body, "{\"members\":[");
	if (rc == 0)
		rc = put_members(s, &it, txn, rq, a);
	fsm_member_iter_close(&it);
	if (rc != 0 && rc != ERR_NOTFOUND)
		return rc;
	buf_puts(&a->body, "]}");
	svc_answer_json(a, 200);
	return 0;
}
