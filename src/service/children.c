/* A parent's children: the list, attaching, detaching. */
#include <string.h>

#include "base/rand.h"
#include "service/write.h"

/* ---- the list ---- */

/* How far a child lags behind is known to those that hold the records: it is shown as not known. */
static int put_child(struct store_txn *txn, struct str name, struct arena *arena, struct json_writer *w)
{
	struct topic child = { .name = name };
	struct fsm_topic stored;
	int rc = fsm_get_topic(txn, name, &stored);

	if (rc == 0)
		rc = record_read_json(&topic_type, stored.record, arena, &child, NULL, NULL);
	/* An old release could leave a name behind that is no topic. */
	if (rc != 0 && rc != ERR_NOTFOUND)
		return rc;
	json_begin_object(w);
	json_field_str(w, "name", name);
	if (child.id.len > 0)
		json_field_str(w, "id", child.id);
	if (child.attach_epoch.len > 0)
		json_field_str(w, "attach_epoch", child.attach_epoch);
	json_field_i64(w, "delay_ms", child.fanout_delay_ms);
	json_field_u64(w, "lag_messages", 0);
	json_field_bool(w, "lag_complete", false);
	if (child.remote) {
		json_field_str(w, "remote", child.remote->name);
		json_field_bool(w, "paused", child.remote->paused);
	}
	json_end_object(w);
	return 0;
}

int svc_child_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct fsm_topic stored;
	struct topic parent;
	int rc = fsm_get_topic(txn, rq->topic, &stored);

	if (rc == ERR_NOTFOUND) {
		svc_fail_topic_missing(a);
		return 0;
	}
	if (rc == 0)
		rc = record_read_json(&topic_type, stored.record, &s->arena, &parent, NULL, NULL);
	if (rc != 0)
		return rc;
	json_begin_object(&w);
	json_field_str(&w, "parent", parent.name);
	if (parent.id.len > 0)
		json_field_str(&w, "parent_id", parent.id);
	json_key(&w, "children");
	json_begin_array(&w);
	for (size_t i = 0; rc == 0 && i < parent.children.count; i++)
		rc = put_child(txn, parent.children.items[i], &s->arena, &w);
	if (rc != 0)
		return rc;
	json_end_array(&w);
	json_end_object(&w);
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

/* ---- attach ---- */

static bool attach_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct child_attach *b = &w->body.attach;
	struct record_fault fault = { 0 };
	struct err e = { 0 };
	uint64_t epoch;

	if (!svc_write_read_body(t, &child_attach_type, b, a) ||
	    !svc_write_check_rules(rules_check_child_attach(b, &fault, &e), &fault, &e, a))
		return false;
	if (b->remote.len > 0)
		return svc_remote_attach_parse(t, a);
	if (str_eq(b->child, t->rq.topic))
		return svc_bad_field(a, "child", "child: a topic cannot be its own child");
	rand_secure(&epoch, sizeof(epoch));
	hex64(w->epoch, epoch);
	return true;
}

static struct cmd_child_attach_if attach_command(const struct svc_write *w)
{
	return (struct cmd_child_attach_if){
		.link = {
			.parent = w->topic.name,
			.child = w->partner.name,
			.epoch = str_of(w->epoch),
			.delay_ms = w->body.attach.delay_ms.value,
		},
		.parent_id = w->expect_id,
		.child_id = w->partner.id,
	};
}

/* The parent as it will be, for an answer that comes when something newer has been applied already. */
static enum svc_verdict plan_parent(struct svc_task *t, struct store_txn *txn, int *rc)
{
	struct svc_write *w = t->write;
	struct topic *p = &w->topic;
	const size_t n = p->children.count;
	struct topic_extra extra;
	struct str *children = arena_alloc(&t->arena, (n + 1) * sizeof(*children));

	if (n > 0)
		memcpy(children, p->children.items, n * sizeof(*children));
	children[n] = w->partner.name;
	p->children = (struct str_list){ children, n + 1 };
	p->role = STR_LIT(TOPIC_ROLE_PARENT);
	*rc = fsm_get_topic_extra(txn, p->name, &t->arena, &extra);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	svc_write_plan_tail(t, &extra);
	return SVC_VERDICT_OK;
}

static enum svc_verdict is_expected_child(struct svc_task *t, struct svc_answer *a)
{
	if (t->rq.child_id.p && !str_eq(t->rq.child_id, t->write->partner.id))
		return svc_write_refuse(t, FSM_CHILD_CHANGED, "", a);
	return SVC_VERDICT_OK;
}

/* A child gets all that its parent gets: who links them must hold both. */
static enum svc_verdict attach_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct cmd_child_attach_if cmd;
	enum svc_verdict v = svc_write_load_topic(t, txn, NULL, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_may_manage(t, &w->topic, a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_load_partner(t, txn, w->body.attach.child, FSM_CHILD_NOT_FOUND, a, rc);
	if (v == SVC_VERDICT_OK)
		v = svc_write_may_manage(t, &w->partner, a);
	if (v == SVC_VERDICT_OK)
		v = is_expected_child(t, a);
	if (v != SVC_VERDICT_OK)
		return v;
	cmd = attach_command(w);
	v = svc_write_judge(t, txn, CMD_CHILD_ATTACH_IF, &cmd, a, rc);
	return v == SVC_VERDICT_OK ? plan_parent(t, txn, rc) : v;
}

static void attach_build(struct svc_task *t, struct entry_builder *b)
{
	struct cmd_child_attach_if cmd = attach_command(t->write);

	svc_add_attach(t, b, &cmd);
}

static void attach_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	svc_write_answer_topic(t, 200, index, a);
}

const struct svc_write_kind svc_child_attach_kind = {
	.parse = attach_parse,
	.check = attach_check,
	.build = attach_build,
	.answer = attach_answer,
};

/* ---- detach ---- */

static struct cmd_child_detach_if detach_command(const struct svc_write *w)
{
	return (struct cmd_child_detach_if){
		.parent = w->topic.name,
		.child = w->partner.name,
		.parent_id = w->expect_id,
		.child_id = w->partner.id,
	};
}

/* Either side may let go. */
static enum svc_verdict may_detach(struct svc_task *t, struct svc_answer *a)
{
	enum svc_verdict v = svc_write_may_manage(t, &t->write->topic, a);

	if (v == SVC_VERDICT_OK)
		return v;
	buf_fini(&a->body);
	*a = (struct svc_answer){ 0 };
	return svc_write_may_manage(t, &t->write->partner, a);
}

static enum svc_verdict detach_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct cmd_child_detach_if cmd;
	enum svc_verdict v = svc_write_load_topic(t, txn, NULL, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_load_partner(t, txn, t->rq.child, FSM_CHILD_NOT_FOUND, a, rc);
	if (v == SVC_VERDICT_OK)
		v = may_detach(t, a);
	if (v == SVC_VERDICT_OK)
		v = is_expected_child(t, a);
	if (v != SVC_VERDICT_OK)
		return v;
	cmd = detach_command(w);
	return svc_write_judge(t, txn, CMD_CHILD_DETACH_IF, &cmd, a, rc);
}

static void detach_build(struct svc_task *t, struct entry_builder *b)
{
	struct cmd_child_detach_if cmd = detach_command(t->write);

	svc_add_detach(t, b, &cmd);
}

const struct svc_write_kind svc_child_detach_kind = {
	.uses_reserve = true,
	.check = detach_check,
	.build = detach_build,
	.answer = svc_write_answer_nothing,
};
