/* What the kinds of writes share: loading and judging what a request is about, and saying what is wrong with it. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "service/auth.h"
#include "service/write.h"
#include "store/store.h"

void svc_write_fail_held_back(struct svc_task *t, unsigned type, struct svc_answer *a)
{
	const struct node_blocker *by = node_held_back_by(svc_node_status(t->svc, NULL), type);
	const struct command_info *info = command_info(type);
	struct json_writer w;

	if (by)
		node_note_held_back(t->svc->shared->node, type, by, false);
	svc_fail_write(a, 412, "held_back", "none", 0,
	               "this write needs the entry type %u (%s), and %s (build %s) knows types up to %" PRIu32
	               "; upgrade that member first",
	               type, info ? info->name : "unknown", by ? by->id : "a member",
	               by && by->build[0] ? by->build : "unknown", by ? by->entry_types : 0);
	svc_fail_open(a, &w);
	json_key(&w, "members");
	json_begin_array(&w);
	if (by)
		json_put_cstr(&w, by->id);
	json_end_array(&w);
	svc_fail_close(a, &w);
}

bool svc_write_may_use(struct svc_task *t, unsigned type)
{
	const struct node_blocker *by = node_held_back_by(svc_node_status(t->svc, NULL), type);

	if (by)
		node_note_held_back(t->svc->shared->node, type, by, true);
	return !by;
}

enum svc_verdict svc_write_needs(struct svc_task *t, unsigned type, struct svc_answer *a)
{
	if (!node_held_back_by(svc_node_status(t->svc, NULL), type))
		return SVC_VERDICT_OK;
	svc_write_fail_held_back(t, type, a);
	return SVC_VERDICT_FAILED;
}

enum svc_verdict svc_write_judge(struct svc_task *t, struct store_txn *txn, unsigned type, const void *command,
                                 struct svc_answer *a, int *rc)
{
	struct fsm_hint hint = { "" };
	struct err e = { 0 };
	int r = fsm_judge(txn, type, command, clock_wall_ms(), &t->arena, &hint, &e);

	if (r == 0)
		return SVC_VERDICT_OK;
	if (r < 0) {
		*rc = r;
		return SVC_VERDICT_FAILED;
	}
	return svc_write_refuse(t, r, hint.name, a);
}

enum svc_verdict svc_write_refuse(struct svc_task *t, int refusal, const char *hint, struct svc_answer *a)
{
	svc_fail_refusal(a, refusal, hint, fsm_reader_index(&t->svc->reader));
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict load(struct svc_task *t, struct store_txn *txn, struct str name, int missing,
                             struct fsm_topic *stored, struct topic *out, struct svc_answer *a, int *rc)
{
	int r = fsm_get_topic(txn, name, stored);

	if (r == ERR_NOTFOUND)
		return svc_write_refuse(t, missing, "", a);
	if (r == 0) {
		/* The transaction ends before the write does. */
		struct str copy = arena_str(&t->arena, stored->record);

		r = record_read_json(&topic_type, copy, &t->arena, out, NULL, NULL);
	}
	if (r == 0)
		return SVC_VERDICT_OK;
	*rc = r;
	return SVC_VERDICT_FAILED;
}

enum svc_verdict svc_write_load_partner(struct svc_task *t, struct store_txn *txn, struct str name, int missing,
                                        struct svc_answer *a, int *rc)
{
	struct fsm_topic stored;

	return load(t, txn, name, missing, &stored, &t->write->partner, a, rc);
}

/* Is the stored topic the one that the client means? */
static enum svc_verdict meets_conditions(struct svc_task *t, const struct fsm_topic *stored, struct svc_answer *a)
{
	const struct svc_request *rq = &t->rq;

	if (rq->id.p && !str_eq(rq->id, t->write->topic.id))
		return svc_write_refuse(t, FSM_TOPIC_CHANGED, "", a);
	if (!rq->if_match.p)
		return SVC_VERDICT_OK;
	switch (svc_etag_if_match(rq->if_match, stored)) {
	case SVC_PRECONDITION_MET: return SVC_VERDICT_OK;
	case SVC_PRECONDITION_FAILED:
		svc_fail_write(a, 412, "changed", "none", fsm_reader_index(&t->svc->reader),
		               "the topic is not the one that If-Match names any more; read it and try again");
		return SVC_VERDICT_REFUSED;
	case SVC_PRECONDITION_UNREADABLE: break;
	}
	svc_fail(a, 400, "bad_parameter", "If-Match", "If-Match is * or a list of entity tags in quotes");
	return SVC_VERDICT_FAILED;
}

enum svc_verdict svc_write_load_topic(struct svc_task *t, struct store_txn *txn, struct fsm_topic *stored,
                                      struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct fsm_topic unused;
	struct fsm_topic *at = stored ? stored : &unused;
	enum svc_verdict v = load(t, txn, t->rq.topic, FSM_TOPIC_NOT_FOUND, at, &w->topic, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	w->tail = arena_str(&t->arena, at->tail);
	w->expect_id = w->topic.id;
	return meets_conditions(t, at, a);
}

enum svc_verdict svc_write_load_partition(struct svc_task *t, struct store_txn *txn, struct str expect_id,
                                          struct fsm_topic *stored, struct svc_answer *a, int *rc)
{
	enum svc_verdict v = svc_write_load_topic(t, txn, stored, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	if (expect_id.p && !str_eq(expect_id, t->write->topic.id))
		return svc_write_refuse(t, FSM_TOPIC_CHANGED, "", a);
	if (t->rq.partition >= (int64_t)stored->partition_count)
		return svc_write_refuse(t, FSM_PARTITION_RANGE, "", a);
	return SVC_VERDICT_OK;
}

enum svc_verdict svc_write_may_manage(struct svc_task *t, const struct topic *topic, struct svc_answer *a)
{
	if (rights_may_manage(t->write->rights, topic->owner))
		return SVC_VERDICT_OK;
	/* Whose the topic is depends on the state as much as whether it is there. */
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader),
	               "only its owner or an admin may change this topic");
	return SVC_VERDICT_REFUSED;
}

bool svc_write_check_rules(int rc, const struct record_fault *fault, const struct err *e, struct svc_answer *a)
{
	if (rc == 0)
		return true;
	svc_fail(a, 400, fault->code, fault->field[0] ? fault->field : NULL, "%s", e->msg);
	return false;
}

bool svc_write_read_body(struct svc_task *t, const struct record_type *type, void *out, struct svc_answer *a)
{
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	if (t->rq.body.len == 0) {
		svc_fail(a, 400, "bad_json", NULL, "the body is empty; send a JSON object");
		return false;
	}
	const int rc = record_read_json(type, t->rq.body, &t->arena, out, &fault, &e);

	return svc_write_check_rules(rc, &fault, &e, a);
}

void svc_write_plan_tail(struct svc_task *t, const struct topic_extra *extra)
{
	struct svc_write *w = t->write;
	struct buf tail = { 0 };

	fsm_put_topic_tail(&w->topic, extra, &tail);
	w->tail = (struct str){ arena_dup(&t->arena, tail.data, tail.len), tail.len };
	buf_fini(&tail);
}

void svc_write_put_topic(const struct svc_write *w, struct buf *out)
{
	record_put_json(&topic_type, &w->topic, out);
	out->len--;
	buf_put(out, w->tail.p, w->tail.len);
	buf_putc(out, '}');
}

void svc_write_answer_topic(struct svc_task *t, int status, raft_index index, struct svc_answer *a)
{
	struct svc *s = t->svc;
	struct svc_write *w = t->write;
	struct store_txn *txn;
	struct fsm_topic stored;
	struct err e;

	a->index = index;
	if (fsm_read(&s->reader, &txn, &e) == 0 && fsm_get_topic(txn, w->topic.name, &stored) == 0 &&
	    stored.changed_index == index) {
		/* The tag is that of a GET, so that the next change can name it. */
		struct svc_answer whole = { 0 };

		svc_put_topic_open(&a->body, &stored);
		buf_putc(&a->body, '}');
		if (svc_put_topic(s, txn, &stored, -1, &whole) == 0)
			memcpy(a->etag, whole.etag, sizeof(a->etag));
		buf_fini(&whole.body);
	} else {
		/* Something newer has been applied already; what this write left is what it planned. */
		svc_write_put_topic(w, &a->body);
	}
	svc_answer_json(a, status);
}

void svc_write_answer_nothing(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	(void)t;
	a->status = 204;
	a->index = index;
}

void svc_write_answer_row(struct svc_task *t, int status, raft_index index, const struct fsm_owner *left,
                          const struct fsm_replicas *copies, struct svc_answer *a)
{
	const struct topic *topic = &t->write->topic;
	const uint32_t p = (uint32_t)t->rq.partition;
	const char *state = fsm_assignment_state(left, true);
	struct json_writer w = { .out = &a->body };
	const struct fsm_members *members;
	struct fsm_replicas set = *copies;
	struct fsm_owner o = *left;
	struct store_txn *txn;
	struct fsm_topic stored;
	struct err e;

	if (fsm_read(&t->svc->reader, &txn, &e) == 0 && fsm_reader_members(&t->svc->reader, &members, &e) == 0 &&
	    fsm_get_topic(txn, topic->name, &stored) == 0 && p < stored.partition_count &&
	    svc_get_copies(txn, &stored, p, &set) == 0) {
		fsm_topic_owner(&stored, p, &o);
		state = svc_assignment_state(&o, members);
	}
	fsm_write_assignment(&w, topic->name, topic->id, p, &o, state, &set);
	svc_answer_json(a, status);
	a->index = index;
}
