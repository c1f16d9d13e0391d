/* Reads of topics. A GET copies the stored record and formats a tail: nothing is parsed, nothing allocated. */
#include <string.h>

#include "model/records.h"
#include "model/rules.h"
#include "service/rights.h"
#include "service/service_internal.h"

#define SCAN_MAX 10000 /* topics looked at for one page when a filter lets few through */

void svc_fail_topic_missing(struct svc_answer *a)
{
	svc_fail(a, 404, "topic_not_found", NULL, "topic not found");
}

/* Records are written by the state machine as "{...}": the brace is put back behind what is added. */
void svc_put_topic_open(struct buf *out, const struct fsm_topic *t)
{
	buf_put(out, t->record.p, t->record.len - 1);
	buf_put(out, t->tail.p, t->tail.len);
}

/* ---- partition_stats: what metadata knows of each partition ---- */

const char *svc_owner_liveness(const struct fsm_members *members, struct str owner)
{
	const struct fsm_member *m;

	if (owner.len == 0)
		return "unassigned";
	m = fsm_members_find(members, owner);
	if (!m)
		return "unknown";
	return m->alive ? "alive" : "dead";
}

static void put_partition_stat(struct buf *out, const struct fsm_topic *t, uint32_t p,
                               const struct fsm_members *members)
{
	struct fsm_owner o;

	fsm_topic_owner(t, p, &o);
	buf_puts(out, "{\"index\":");
	buf_put_u64(out, p);
	if (o.owner.len > 0) {
		/* Member ids are letters, digits, '.', '_' and '-': nothing to escape. */
		buf_puts(out, ",\"owner_node\":\"");
		buf_put(out, o.owner.p, o.owner.len);
		buf_putc(out, '"');
	}
	buf_puts(out, ",\"owner_liveness\":\"");
	buf_puts(out, svc_owner_liveness(members, o.owner));
	buf_puts(out, "\"}");
}

static int put_schema(struct svc_answer *a, struct store_txn *txn, const struct fsm_topic *t)
{
	struct json_writer w = { .out = &a->body };
	struct str doc;
	int rc;

	if (t->schema_version == 0)
		return 0;
	rc = fsm_get_schema(txn, t->name, t->schema_version, &doc);
	if (rc != 0)
		return rc == ERR_NOTFOUND ? ERR_CORRUPT : rc;
	buf_puts(&a->body, ",\"schema\":");
	json_put_doc(&w, doc);
	return 0;
}

int svc_put_topic(struct svc *s, struct store_txn *txn, const struct fsm_topic *t, int64_t partition,
                  struct svc_answer *a)
{
	const struct fsm_members *members;
	struct err e;
	int rc = fsm_reader_members(&s->reader, &members, &e);

	if (rc != 0)
		return rc;
	svc_put_topic_open(&a->body, t);
	const size_t own = a->body.len;

	buf_puts(&a->body, ",\"schema_version\":");
	buf_put_u64(&a->body, t->schema_version);
	rc = put_schema(a, txn, t);
	if (rc != 0)
		return rc;
	buf_puts(&a->body, ",\"partition_stats\":[");
	if (partition >= 0) {
		put_partition_stat(&a->body, t, (uint32_t)partition, members);
	} else {
		for (uint32_t p = 0; p < t->partition_count; p++) {
			if (p > 0)
				buf_putc(&a->body, ',');
			put_partition_stat(&a->body, t, p, members);
		}
	}
	buf_puts(&a->body, "]}");
	svc_etag_record(a, own);
	svc_answer_json(a, 200);
	return 0;
}

int svc_topic_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct fsm_topic t;
	int rc = fsm_get_topic(txn, rq->topic, &t);

	if (rc == ERR_NOTFOUND) {
		svc_fail_topic_missing(a);
		return 0;
	}
	if (rc != 0)
		return rc;
	if (rq->partition >= (int64_t)t.partition_count) {
		svc_fail(a, 400, "bad_parameter", "partition", "invalid partition");
		return 0;
	}
	return svc_put_topic(s, txn, &t, rq->partition, a);
}

/* ---- the list ---- */

static bool has_label(const struct str_map *labels, struct str key, struct str value)
{
	for (size_t i = 0; i < labels->count; i++) {
		if (str_eq(labels->items[i].key, key))
			return str_eq(labels->items[i].value, value);
	}
	return false;
}

static int passes(struct svc *s, struct store_txn *txn, const struct svc_request *rq, const struct fsm_topic *t,
                  bool *yes)
{
	struct topic_extra extra;
	struct topic rec;
	int rc;

	*yes = true;
	arena_reset(&s->arena);
	if (rq->label_key.p) {
		rc = fsm_get_topic_extra(txn, t->name, &s->arena, &extra);
		if (rc != 0)
			return rc;
		*yes = has_label(&extra.labels, rq->label_key, rq->label_value);
		if (!*yes)
			return 0;
	}
	const bool is_granted = rights_may_any(s->rights, t->name);

	if (is_granted && !rq->owner.p && !rq->role.p)
		return 0;
	rc = record_read_json(&topic_type, t->record, &s->arena, &rec, NULL, NULL);
	if (rc != 0)
		return rc;
	*yes = (is_granted || rights_may_manage(s->rights, rec.owner)) &&
	       (!rq->owner.p || str_eq(rec.owner, rq->owner)) &&
	       (!rq->role.p || str_eq(rec.role.len ? rec.role : STR_LIT(TOPIC_ROLE_STANDALONE), rq->role));
	return 0;
}

static void end_list(struct svc_answer *a, struct str token)
{
	struct json_writer w = { .out = &a->body };

	buf_puts(&a->body, "],\"next_page_token\":");
	json_put_str(&w, token);
	buf_putc(&a->body, '}');
	svc_answer_json(a, 200);
}

/* One page. The token is the last name looked at, and there is one only when something stands behind it. */
static int put_page(struct svc *s, struct fsm_topic_iter *it, const struct svc_request *rq, struct svc_answer *a)
{
	struct fsm_topic t;
	struct str last = { "", 0 };
	uint32_t shown = 0, seen = 0;
	bool more = false;
	int rc;

	while ((rc = fsm_topic_iter_next(it, &t)) == 0) {
		bool yes;

		if (shown == rq->limit || seen == SCAN_MAX) {
			more = true;
			break;
		}
		rc = passes(s, it->txn, rq, &t, &yes);
		if (rc != 0)
			return rc;
		seen++;
		last = t.name;
		if (!yes)
			continue;
		if (shown++ > 0)
			buf_putc(&a->body, ',');
		svc_put_topic_open(&a->body, &t);
		buf_putc(&a->body, '}');
	}
	if (rc != 0 && rc != ERR_NOTFOUND)
		return rc;
	end_list(a, more ? last : (struct str){ "", 0 });
	return 0;
}

int svc_topic_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct fsm_topic_iter it = { 0 };
	struct str prefix = rq->prefix.p ? rq->prefix : (struct str){ "", 0 };
	struct str after = rq->page_token.p ? rq->page_token : (struct str){ "", 0 };
	int rc;

	/* No key is longer, so nothing begins with or stands behind such a text in a way that matters. */
	if (prefix.len > TOPIC_STORED_NAME_MAX || after.len > STORE_KEY_MAX) {
		svc_fail(a, 400, "bad_parameter", prefix.len > TOPIC_STORED_NAME_MAX ? "prefix" : "page_token",
		         "longer than any topic's name");
		return 0;
	}
	/* What a user sees depends on the grants too. */
	static const enum fsm_domain domains[] = { FSM_DOMAIN_TOPICS, FSM_DOMAIN_USERS };

	rc = 0;
	if (svc_etag_list(txn, rq, domains, s->rights->reads_all ? 1 : 2, a, &rc) || rc != 0)
		return rc;
	buf_puts(&a->body, "{\"topics\":[");
	rc = fsm_topic_iter_open(&it, txn, prefix, after);
	if (rc == 0)
		rc = put_page(s, &it, rq, a);
	else if (rc == ERR_NOTFOUND) {
		end_list(a, (struct str){ "", 0 });
		rc = 0;
	}
	fsm_topic_iter_close(&it);
	return rc;
}
