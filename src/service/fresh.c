/* How fresh an answer is to be: reads that wait for an index, reads confirmed by a majority, the barrier.
 *
 * A strong read asks the node for a read index after the request came, waits until this replica has applied it, and
 * answers from a transaction at or above it. Whatever is missing on that way (a leader, a majority behind it, this
 * replica) is a 503: never an answer that might be old. It works on every node; a follower's question travels to the
 * leader. */
#include <string.h>

#include "base/clock.h"
#include "service/service_internal.h"

/* ---- what a read of the replica demands ---- */

static bool is_stale(struct svc *s, const struct svc_request *rq, struct svc_answer *a)
{
	int64_t age_ms = node_contact_age_ms(s->shared->node);

	if (age_ms >= 0 && (uint64_t)age_ms <= rq->max_age_ms && svc_was_caught_up(s))
		return false;
	if (age_ms < 0)
		svc_fail(a, 503, "stale", NULL, "this node has not heard from a leader yet; ask another node");
	else if ((uint64_t)age_ms > rq->max_age_ms)
		svc_fail(a, 503, "stale", NULL,
		         "this node heard from a leader %lld ms ago, more than the %llu ms of max_age_ms; ask another "
		         "node",
		         (long long)age_ms, (unsigned long long)rq->max_age_ms);
	else
		svc_fail(a, 503, "stale", NULL,
		         "this node has not caught up since its start, how old its state is it does not know; ask "
		         "another node");
	return true;
}

bool svc_may_read_replica(struct svc *s, const struct svc_request *rq, struct svc_answer *a)
{
	if (!svc_node_status(s, NULL)->configured) {
		svc_fail(a, 503, "not_ready", NULL,
		         "this node is not part of a cluster yet: it holds no Raft configuration");
		return false;
	}
	return !rq->has_max_age || !is_stale(s, rq, a);
}

/* ---- min_index ---- */

static void fail_behind(struct svc_task *t, raft_index want)
{
	struct svc_answer a = { 0 };

	if (svc_is_confirm(t->rq.op)) {
		svc_fail_not_confirmed(&a, "the leader did not apply everything committed in time");
		svc_task_answer(t, &a);
		return;
	}
	svc_fail(&a, 503, "behind", NULL,
	         "this node has applied index %llu, not yet %llu; try again or ask another node",
	         (unsigned long long)svc_applied_index(t->svc), (unsigned long long)want);
	svc_task_answer(t, &a);
}

static void on_read_index(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };

	if (why != SVC_WAKE_REACHED) {
		fail_behind(t, t->want);
		return;
	}
	if (t->rq.op == SVC_LOG) {
		svc_log_begin(t);
		return;
	}
	svc_read_answer(t->svc, &t->rq, &a);
	if (svc_is_confirm(t->rq.op) && a.status >= 500)
		svc_fail_not_confirmed(&a, "the leader could not read its state");
	svc_task_answer(t, &a);
}

void svc_read_at(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_begin(s, rq, done, arg);

	if (!t)
		return;
	t->resume = on_read_index;
	svc_task_wait_applied(t, rq->min_index, SVC_MIN_INDEX_MS);
}

/* ---- a confirmed index: strong reads, the barrier, and what the leader is asked to confirm ---- */

static void fail_unconfirmed(struct svc_task *t, int code)
{
	struct svc_answer a = { 0 };
	const char *word = code == ERR_FULL ? "overloaded" : code == ERR_STOPPED ? "stopped" : "no_leader";
	const char *text = code == ERR_FULL      ? "too many requests wait on this node; try again"
	                   : code == ERR_STOPPED ? "this node stopped applying; ask another node"
	                                         : "no leader with a majority behind it confirmed the index; try again";

	if (svc_is_confirm(t->rq.op)) {
		svc_fail_not_confirmed(&a, text);
		svc_task_answer(t, &a);
		return;
	}
	if (t->rq.op == SVC_BARRIER)
		svc_fail_write(&a, 503, word, "none", 0, "%s", text);
	else
		svc_fail(&a, 503, word, NULL, "%s", text);
	svc_task_answer(t, &a);
}

static void answer_barrier(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };
	struct json_writer w = { .out = &a.body };

	if (why != SVC_WAKE_REACHED) {
		svc_fail_write(&a, 503, "behind", "none", 0, "this node did not apply everything committed within %d s",
		               SVC_CONFIRM_MS / 1000);
		svc_task_answer(t, &a);
		return;
	}
	json_begin_object(&w);
	json_field_u64(&w, "index", t->want);
	json_end_object(&w);
	svc_answer_json(&a, 200);
	svc_task_answer(t, &a);
}

/* The whole takes SVC_CONFIRM_MS at most, so what the question took is not given to applying once more. */
static void on_confirmed(struct svc_task *t, enum svc_wake why)
{
	uint64_t spent_ms = (clock_mono_ns() - t->since_ns) / 1000000;
	raft_index want = t->completion.index;

	if (why == SVC_WAKE_TIMEOUT || t->completion.code != 0 || spent_ms >= SVC_CONFIRM_MS) {
		fail_unconfirmed(t, why == SVC_WAKE_COMPLETED ? t->completion.code : ERR_TIMEOUT);
		return;
	}
	if (t->rq.min_index > want)
		want = t->rq.min_index;
	t->resume = t->rq.op == SVC_BARRIER ? answer_barrier : on_read_index;
	svc_task_wait_applied(t, want, SVC_CONFIRM_MS - spent_ms);
}

void svc_confirm(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_begin(s, rq, done, arg);

	if (!t)
		return;
	t->resume = on_confirmed;
	svc_task_wait_read(t, SVC_CONFIRM_MS);
}
