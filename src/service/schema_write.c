/* Schema documents in writes: the judge is asked once for each version a document would follow, and what it said is
 * used only while that is still the latest version of the same topic. */
#include <string.h>

#include "base/mem.h"
#include "model/json_equal.h"
#include "service/write.h"

#define ASKED_MAX 3 /* a topic whose schema changes faster than it can be judged */

static struct {
	svc_schema_judge judge;
	void *arg;
} registered; /* set before the http threads start */

void svc_set_schema_judge(svc_schema_judge judge, void *arg)
{
	registered.judge = judge;
	registered.arg = arg;
}

void svc_schema_question_unref(struct svc_schema_question *q)
{
	if (!q || atomic_fetch_sub(&q->refs, 1) > 1)
		return;
	arena_fini(&q->arena);
	mem_free(q);
}

void svc_schema_drop(struct svc_task *t)
{
	svc_schema_question_unref(t->write->schema.question);
	t->write->schema.question = NULL;
}

void svc_schema_wish(struct svc_task *t, struct str document)
{
	struct svc_schema_wish *s = &t->write->schema;
	struct buf compact = { 0 };

	s->judged_after = -1;
	if (!document.p)
		return;
	json_compact(&compact, document, false);
	s->document = (struct str){ arena_dup(&t->arena, compact.data, compact.len), compact.len };
	buf_fini(&compact);
}

static struct str dup_str(struct arena *a, struct str s)
{
	return (struct str){ s.p ? arena_strndup(a, s.p, s.len) : NULL, s.len };
}

static void make_question(struct svc_task *t, const struct topic *topic, int64_t latest, struct str current)
{
	struct svc_schema_wish *s = &t->write->schema;
	struct svc_schema_question *q = mem_zalloc(sizeof(*q));
	struct buf json = { 0 };

	svc_schema_drop(t);
	atomic_init(&q->refs, 1);
	svc_write_put_topic(t->write, &json);
	q->topic_json = (struct str){ arena_dup(&q->arena, json.data, json.len), json.len };
	buf_fini(&json);
	q->current = dup_str(&q->arena, current);
	q->document = dup_str(&q->arena, s->document);
	s->question = q;
	s->judged_after = latest;
	s->judged_id = dup_str(&t->arena, topic->id);
	s->asked++;
}

static bool is_judged(const struct svc_schema_wish *s, const struct topic *topic, int64_t latest)
{
	return s->judged_after == latest && !s->question && str_eq(s->judged_id, topic->id);
}

static enum svc_verdict use_judgement(struct svc_task *t, struct svc_answer *a)
{
	struct svc_schema_wish *s = &t->write->schema;

	s->is_new = s->result == SVC_SCHEMA_COMPATIBLE;
	if (s->result != SVC_SCHEMA_REFUSED)
		return SVC_VERDICT_OK;
	a->index = fsm_reader_index(&t->svc->reader);
	svc_fail(a, 400, "bad_field", "schema", "schema: %s", s->reason);
	return SVC_VERDICT_REFUSED;
}

enum svc_verdict svc_schema_check(struct svc_task *t, struct store_txn *txn, const struct topic *topic, int64_t latest,
                                  struct svc_answer *a, int *rc)
{
	struct svc_schema_wish *s = &t->write->schema;
	struct str current = { NULL, 0 };
	struct arena scratch = { 0 };
	bool same;

	s->version = latest + 1;
	if (is_judged(s, topic, latest))
		return use_judgement(t, a);
	if (latest > 0) {
		*rc = fsm_get_schema(txn, topic->name, (uint32_t)latest, &current);
		if (*rc != 0) {
			*rc = *rc == ERR_NOTFOUND ? ERR_CORRUPT : *rc;
			return SVC_VERDICT_FAILED;
		}
		same = json_equal(current, s->document, &scratch);
		arena_fini(&scratch);
		if (same) {
			s->is_new = false;
			return SVC_VERDICT_OK;
		}
	}
	if (s->asked == ASKED_MAX)
		return svc_write_refuse(t, FSM_SCHEMA_EXISTS, "", a);
	make_question(t, topic, latest, current);
	return SVC_VERDICT_ASK;
}

enum svc_verdict svc_schema_check_next(struct svc_task *t, struct store_txn *txn, const struct fsm_topic *stored,
                                       const struct opt_i64 *base, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const int64_t latest = stored->schema_version;
	const struct cmd_schema_put_if cmd = { w->topic.name, latest + 1, w->schema.document, w->expect_id };
	enum svc_verdict v;

	w->schema.is_new = false;
	if (topic_is_child(&w->topic))
		return svc_write_refuse(t, FSM_SCHEMA_MANAGED, "", a);
	if (base->set && base->value != latest) {
		svc_fail_write(a, 409, "schema_conflict", "none", fsm_reader_index(&t->svc->reader),
		               "schema version conflict: the latest version is %lld, not %lld; read it and try again",
		               (long long)latest, (long long)base->value);
		return SVC_VERDICT_REFUSED;
	}
	v = svc_schema_check(t, txn, &w->topic, latest, a, rc);
	/* No policy need be asked where there is no room. */
	if ((v == SVC_VERDICT_OK && w->schema.is_new) || v == SVC_VERDICT_ASK) {
		enum svc_verdict room = svc_write_judge(t, txn, CMD_SCHEMA_PUT_IF, &cmd, a, rc);

		if (room != SVC_VERDICT_OK)
			return room;
	}
	return v;
}

void svc_schema_build(struct svc_task *t, struct entry_builder *b)
{
	const struct svc_write *w = t->write;
	const struct cmd_schema_put_if cmd = { w->topic.name, w->schema.version, w->schema.document, w->expect_id };

	if (w->schema.is_new)
		svc_add_schema(t, b, &cmd);
}

bool svc_schema_ask(struct svc_task *t)
{
	struct svc *s = t->svc;
	struct svc_schema_question *q = t->write->schema.question;

	if (!registered.judge || s->asked_out >= s->slot_count)
		return false;
	t->asked_seq = ++s->asked_seq;
	q->reply = (struct node_reply_to){ .queue = s->asked, .slot = t->slot, .generation = t->asked_seq };
	atomic_store(&q->refs, 2);
	if (registered.judge(registered.arg, q)) {
		s->asked_out++;
		return true;
	}
	svc_schema_question_unref(q);
	return false;
}

bool svc_schema_take(struct svc_task *t, bool answered, struct svc_answer *a)
{
	struct svc_schema_wish *s = &t->write->schema;
	const struct svc_schema_question *q = s->question;
	bool ok = answered && q->result != SVC_SCHEMA_FAILED;

	if (ok) {
		s->result = q->result;
		memcpy(s->reason, q->reason, sizeof(s->reason));
	} else {
		svc_fail_write(a, 503, "policy_failed", "none", 0, "schema: no policy judged it: %s; nothing was done",
		               answered ? q->reason : "it did not answer in time");
	}
	svc_schema_drop(t);
	return ok;
}

/* ---- PUT of one version ---- */

static bool put_parse(struct svc_task *t, struct svc_answer *a)
{
	struct record_fault fault = { 0 };
	struct err e = { 0 };
	size_t pos;

	if (t->rq.body.len == 0) {
		svc_fail(a, 400, "bad_json", NULL, "the body is empty; send the schema document");
		return false;
	}
	if (json_check(t->rq.body, JSON_DEPTH_DEFAULT, &t->arena, &pos, &e) != 0) {
		svc_fail(a, 400, "bad_json", NULL, "the document cannot be read at byte %zu: %s", pos, e.msg);
		return false;
	}
	svc_schema_wish(t, t->rq.body);
	return svc_write_check_rules(rules_check_schema(t->write->schema.document, &fault, &e), &fault, &e, a);
}

/* The version that is there already, if the document is its: asked for again, it is answered again. */
static enum svc_verdict check_stored(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct arena scratch = { 0 };
	struct str there;
	bool same;

	*rc = fsm_get_schema(txn, t->rq.topic, (uint32_t)t->rq.version, &there);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	same = json_equal(there, t->write->schema.document, &scratch);
	arena_fini(&scratch);
	if (!same)
		return svc_write_refuse(t, FSM_SCHEMA_EXISTS, "", a);
	svc_put_schema(a, t->rq.topic, (uint32_t)t->rq.version, there);
	a->index = fsm_reader_index(&t->svc->reader);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict put_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	static const struct opt_i64 no_base;
	struct svc_write *w = t->write;
	struct fsm_topic stored;
	enum svc_verdict v = svc_write_load_topic(t, txn, &stored, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_may_manage(t, &w->topic, a);
	if (v != SVC_VERDICT_OK)
		return v;
	if (topic_is_child(&w->topic))
		return svc_write_refuse(t, FSM_SCHEMA_MANAGED, "", a);
	if (t->rq.version > (int64_t)stored.schema_version + 1)
		return svc_write_refuse(t, FSM_SCHEMA_GAP, "", a);
	if (t->rq.version <= (int64_t)stored.schema_version)
		return check_stored(t, txn, a, rc);
	v = svc_schema_check_next(t, txn, &stored, &no_base, a, rc);
	/* The number was asked for, so a document that says the same as the one before is no way to it. */
	return v == SVC_VERDICT_OK && !w->schema.is_new ? svc_write_refuse(t, FSM_SCHEMA_EXISTS, "", a) : v;
}

static void put_build(struct svc_task *t, struct entry_builder *b)
{
	svc_schema_build(t, b);
}

static void put_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	const struct svc_schema_wish *s = &t->write->schema;

	svc_put_schema(a, t->write->topic.name, (uint32_t)s->version, s->document);
	a->index = index;
}

const struct svc_write_kind svc_schema_put_kind = {
	.takes_name = true,
	.parse = put_parse,
	.check = put_check,
	.build = put_build,
	.answer = put_answer,
};
