/* Whether a schema document may become a topic's next version, asked while its client waits.
 *
 * The answer depends on nothing but the question, so it needs no view of the cluster and no leadership: what it means
 * for the write is the service's business, which checks again. */
#include <assert.h>
#include <stdio.h>

#include "control/compat.h"
#include "control/control_internal.h"
#include "model/utf8.h"

static_assert(SVC_SCHEMA_REASON_MAX >= COMPAT_REASON_MAX, "a reason is passed on whole");

void judge_init(struct requests *r)
{
	r->schemas = queue_new(REQUESTS_MAX, sizeof(struct svc_schema_question *), &r->lane.wake);
}

static void judge(struct requests *r, struct svc_schema_question *q)
{
	const struct compat_question ask = {
		.topic_json = q->topic_json,
		.old_json = q->current,
		.new_json = q->document,
	};
	struct compat_answer a;
	struct sandbox_fault fault;
	if (compat_ask(r->lane.policies, &sandbox_budget_request, &ask, &q->arena, &a, &fault) != 0) {
		q->result = SVC_SCHEMA_FAILED;
		(void)utf8_copy_clean(q->reason, sizeof(q->reason), str_of(fault.message));
		return;
	}
	q->result = !a.compatible ? SVC_SCHEMA_REFUSED : a.unchanged ? SVC_SCHEMA_UNCHANGED : SVC_SCHEMA_COMPATIBLE;
	snprintf(q->reason, sizeof(q->reason), "%s", a.reason);
}

bool judge_turn(struct requests *r)
{
	struct svc_schema_question *q;
	if (!queue_take(r->schemas, &q))
		return false;
	judge(r, q);
	const struct node_completion done = { .slot = q->reply.slot, .generation = q->reply.generation };
	const bool put = queue_put(q->reply.queue, &done);
	assert(put); /* completion queues have a slot for each request that may be outstanding */
	svc_schema_question_unref(q);
	return !queue_is_empty(r->schemas);
}

bool judge_schema(void *arg, struct svc_schema_question *q)
{
	struct requests *r = arg;
	return queue_put(r->schemas, &q);
}

void judge_fini(struct requests *r)
{
	struct svc_schema_question *q;
	while (queue_take(r->schemas, &q))
		svc_schema_question_unref(q); /* the asking threads have ended */
	queue_free(r->schemas);
}
