/* Reads of schemas: a topic's history, one version. */
#include "service/service_internal.h"

void svc_put_schema(struct svc_answer *a, struct str topic, uint32_t version, struct str document)
{
	struct json_writer w = { .out = &a->body };

	fsm_write_schema(&w, topic, version, document);
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
}

/* False: `a` or *rc says why there is nothing to read. */
static bool find_topic(struct store_txn *txn, const struct svc_request *rq, struct fsm_topic *t, struct svc_answer *a,
                       int *rc)
{
	*rc = fsm_get_topic(txn, rq->topic, t);
	if (*rc == ERR_NOTFOUND) {
		svc_fail_topic_missing(a);
		*rc = 0;
		return false;
	}
	return *rc == 0;
}

/* Oldest first. A history has at most 4 MiB, and half a history would be of no use to anybody. */
int svc_schema_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct fsm_schema *items;
	struct fsm_topic t;
	size_t count;
	int rc;

	if (!find_topic(txn, rq, &t, a, &rc))
		return rc;
	rc = fsm_get_schemas(txn, t.name, &s->arena, &items, &count);
	if (rc != 0)
		return rc;
	json_begin_object(&w);
	json_field_str(&w, "topic", t.name);
	json_field_u64(&w, "version", t.schema_version);
	json_key(&w, "versions");
	json_begin_array(&w);
	for (size_t i = 0; i < count; i++) {
		json_begin_object(&w);
		json_field_u64(&w, "version", items[i].version);
		json_key(&w, "schema");
		json_put_doc(&w, items[i].document);
		json_end_object(&w);
	}
	json_end_array(&w);
	json_end_object(&w);
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

int svc_schema_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct str document;
	struct fsm_topic t;
	int rc;

	(void)s;
	if (!find_topic(txn, rq, &t, a, &rc))
		return rc;
	rc = fsm_get_schema(txn, t.name, (uint32_t)rq->version, &document);
	if (rc == ERR_NOTFOUND) {
		svc_fail(a, 404, "schema_not_found", NULL, "the topic's schema has no version %lld; the latest is %u",
		         (long long)rq->version, t.schema_version);
		return 0;
	}
	if (rc == 0)
		svc_put_schema(a, t.name, (uint32_t)rq->version, document);
	return rc;
}
