/* The members as Narad shows them, and what veena adds: kind, placeable, tags, labels; what stands against leaving. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "fsm/members.h"
#include "model/records.h"
#include "model/rules.h"
#include "service/service_internal.h"
#include "service/settings.h"

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

/* ---- what stands against leaving ---- */

void svc_put_faults(struct json_writer *w, const struct svc_fault *faults, size_t count)
{
	json_begin_array(w);
	for (size_t i = 0; i < count; i++) {
		json_begin_object(w);
		json_field_cstr(w, "code", faults[i].code);
		json_field_cstr(w, "message", faults[i].text);
		json_end_object(w);
	}
	json_end_array(w);
}

/* The leader knows who answers; elsewhere the member records must do. */
static bool is_healthy(const struct node_status *st, uint32_t at)
{
	const struct node_server_view *v = &st->servers[at];

	if (st->role == RAFT_LEADER)
		return v->answers && v->row != NODE_ROW_DEAD;
	return v->row == NODE_ROW_ALIVE || v->row == NODE_ROW_DRAINING;
}

struct fault_list {
	struct svc_fault *items; /* SVC_FAULTS_MAX */
	size_t count;
};

static PRINTF_LIKE(3, 4) void add_fault(struct fault_list *l, const char *code, const char *fmt, ...)
{
	struct svc_fault *f = &l->items[l->count++];
	va_list args;

	f->code = code;
	va_start(args, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, args);
	va_end(args);
}

static void find_voter_faults(struct svc *s, struct str id, struct fault_list *l)
{
	const struct node_status *st = svc_node_status(s, NULL);
	uint32_t left = 0, healthy = 0, min = (uint32_t)svc_setting(s->shared, FSM_SETTING_MIN_VOTERS);
	bool votes = false;

	for (uint32_t i = 0; i < st->conf.count; i++) {
		const struct raft_server *srv = &st->conf.servers[i];

		if (!srv->voter)
			continue;
		if (str_is(id, srv->name)) {
			votes = true;
			continue;
		}
		left++;
		healthy += is_healthy(st, i);
	}
	if (!votes)
		return;
	if (left < min)
		add_fault(l, "below_min_voters",
		          "%" PRIu32 " voters would be left, and the cluster is to keep %" PRIu32
		          "; add a server first",
		          left, min);
	if (healthy * 2 <= left)
		add_fault(l, "no_healthy_majority",
		          "of the %" PRIu32 " voters left only %" PRIu32 " are alive; bring the others back first",
		          left, healthy);
}

static bool has_receiver(const struct fsm_members *members, const struct fsm_member *but)
{
	for (size_t i = 0; i < members->count; i++) {
		const struct fsm_member *m = &members->rows[i];

		if (!str_eq(m->id, but->id) && m->alive && !m->draining && m->placeable)
			return true;
	}
	return false;
}

int svc_decommission_faults(struct svc *s, struct store_txn *txn, const struct fsm_member *m, struct svc_fault *out)
{
	struct fault_list l = { .items = out };
	const struct fsm_members *members;
	struct fsm_member_extra x;
	struct err e;
	int rc = fsm_reader_members(&s->reader, &members, &e);

	if (rc == 0)
		rc = fsm_get_member_extra(txn, m->id, &x);
	if (rc != 0)
		return rc;
	find_voter_faults(s, m->id, &l);
	if (x.counts.owned > 0 && !has_receiver(members, m))
		add_fault(&l, "no_receivers", "no other live member takes partitions; start one, or uncordon one");
	if (x.counts.owned > 0 && !m->alive)
		add_fault(&l, "owner_dead",
		          "it is dead and owns %" PRIu32
		          " partitions, which nobody can copy from it; start it, or give "
		          "it up with lost",
		          x.counts.owned);
	return (int)l.count;
}

/* ---- one member ---- */

static int put_blocked(struct svc *s, struct store_txn *txn, const struct member *m, struct json_writer *w)
{
	struct svc_fault faults[SVC_FAULTS_MAX];
	const struct fsm_member like = { .id = m->id, .alive = str_is(m->status, MEMBER_ALIVE) };
	int count = m->draining ? svc_decommission_faults(s, txn, &like, faults) : 0;

	if (count <= 0)
		return count;
	json_key(w, "decommission_blocked");
	svc_put_faults(w, faults, (size_t)count);
	return 0;
}

/* The age is no part of the tag. */
static int put_member(struct svc *s, struct store_txn *txn, struct svc_answer *a, const struct member *m,
                      const struct fsm_member_extra *x, uint64_t *tag)
{
	const struct node_status *st = svc_node_status(s, NULL);
	uint64_t now_s = clock_wall_ms() / 1000;
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
	int rc = put_blocked(s, txn, m, &w);

	fsm_write_member_extra(&w, x);
	json_end_object(&w);
	*tag = svc_etag_fold(*tag, a, from);
	return rc;
}

int svc_put_member(struct svc *s, struct store_txn *txn, struct str id, struct svc_answer *a, uint64_t *tag)
{
	struct fsm_member_extra x;
	struct str record;
	struct member m;
	int rc = fsm_get_member_record(txn, id, &record);

	if (rc == 0)
		rc = record_read_json(&member_type, record, &s->arena, &m, NULL, NULL);
	if (rc == 0)
		rc = fsm_get_member_extra(txn, id, &x);
	return rc == 0 ? put_member(s, txn, a, &m, &x, tag) : rc;
}

int svc_member_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	uint64_t tag = 0;
	int rc = rule_member_id(rq->member_id) ? svc_put_member(s, txn, rq->member_id, a, &tag) : ERR_NOTFOUND;

	if (rc == ERR_NOTFOUND) {
		svc_fail(a, 404, "member_not_found", NULL, "member not found");
		return 0;
	}
	if (rc != 0)
		return rc;
	svc_etag_hash(a, tag);
	svc_answer_json(a, 200);
	return 0;
}

/* ---- the list ---- */

static int put_members(struct svc *s, struct fsm_member_iter *it, struct store_txn *txn, const struct svc_request *rq,
                       struct svc_answer *a)
{
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
		rc = put_member(s, txn, a, &m, &x, &tag);
		if (rc != 0)
			return rc;
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
