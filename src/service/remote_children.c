/* Children on other clusters: attaching one, pausing and resuming it, giving an offset up. What is stored is metadata:
 * the members that hold the records send them, and act upon what stands here. */
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "service/remotes.h"
#include "service/write.h"

#define RETENTION_WARN_MS 259200000 /* 72 hours: a remote that is away for a long weekend */

/* ---- attach ---- */

struct svc_remote_attach {
	struct cmd_remote_child_attach cmd;
	const char *warning; /* NULL: none */
};

static bool is_admin(struct svc_task *t, struct svc_answer *a)
{
	if (t->write->rights->is_admin)
		return true;
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader), "admin privileges required");
	return false;
}

bool svc_remote_attach_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	uint64_t n[2];

	if (!svc_remotes_allowed(t->svc, a))
		return false;
	rand_secure(n, sizeof(n));
	hex64(w->id, n[0]);
	hex64(w->epoch, n[1]);
	w->created_at = (int64_t)(clock_wall_ms() / 1000);
	w->attach = arena_zalloc(&t->arena, sizeof(*w->attach));
	w->kind = &svc_remote_attach_kind;
	return true;
}

/* The place a remote's URL names. False: it cannot be read, so it is no place anybody else names. */
static bool place_of(struct str record, struct arena *arena, struct remote_url *out)
{
	struct remote r;

	return record_read_json(&remote_type, record, arena, &r, NULL, NULL) == 0 && remote_url_parse(r.url, out);
}

/* Two names for one cluster would let everything be sent there twice: apply sees names, the leader looks at places. */
static int linked_elsewhere(struct svc_task *t, struct store_txn *txn, struct str *child)
{
	const struct remote_link *link = &t->write->attach->cmd.remote;
	struct fsm_remote_iter it = { 0 };
	struct remote_url mine, other;
	struct str name, record;
	int rc = fsm_get_remote(txn, link->name, &record);

	if (rc != 0 || !place_of(record, &t->arena, &mine))
		return rc ? rc : ERR_NOTFOUND;
	rc = fsm_remote_iter_open(&it, txn);
	while (rc == 0 && (rc = fsm_remote_iter_next(&it, &name, &record)) == 0) {
		if (str_eq(name, link->name) || !place_of(record, &t->arena, &other) ||
		    !remote_url_same_place(&mine, &other))
			continue;
		rc = fsm_find_linked(txn, name, link->topic, child);
		if (rc == 0)
			break;
		rc = rc == ERR_NOTFOUND ? 0 : rc;
	}
	fsm_remote_iter_close(&it);
	return rc;
}

static enum svc_verdict judge_names(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	char name[TOPIC_STORED_NAME_MAX + 1];
	struct str found;
	int refusal = FSM_TOPIC_TWIN;

	*rc = fsm_find_twin(txn, t->write->attach->cmd.stub, &found);
	if (*rc == ERR_NOTFOUND) {
		refusal = FSM_REMOTE_TARGET_LINKED;
		*rc = linked_elsewhere(t, txn, &found);
	}
	if (*rc == ERR_NOTFOUND) {
		*rc = 0;
		return SVC_VERDICT_OK;
	}
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	memcpy(name, found.p, found.len);
	name[found.len] = '\0';
	return svc_write_refuse(t, refusal, name, a);
}

static void plan(struct svc_task *t)
{
	struct svc_write *w = t->write;
	const struct child_attach *b = &w->body.attach;
	struct svc_remote_attach *x = w->attach;

	x->cmd = (struct cmd_remote_child_attach){
		.parent = w->topic.name,
		.parent_id = w->topic.id,
		.stub = b->child,
		.stub_id = str_of(w->id),
		.epoch = str_of(w->epoch),
		.delay_ms = b->delay_ms.value,
		.remote = { .name = b->remote,
		            .topic = b->remote_topic.len ? b->remote_topic : w->topic.name,
		            .from = b->from.len ? b->from : STR_LIT("attach"),
		            .lanes = b->lanes.set ? b->lanes.value : REMOTE_LANES_MIN,
		            .created_by = str_of(t->rq.principal.name) },
		.created_at = w->created_at,
		.actor = str_of(t->rq.principal.name),
		.request_id = str_of(t->rq.origin),
	};
	x->warning =
	    w->topic.retention_ms != 0 && w->topic.retention_ms < RETENTION_WARN_MS
		? "the parent keeps its records for less than 72 hours: a remote that is away longer loses some"
		: NULL;
}

/* The stub as it will be. */
static void plan_stub(struct svc_task *t)
{
	const struct topic_extra nothing = TOPIC_EXTRA_DEFAULT;
	struct svc_write *w = t->write;
	const struct cmd_remote_child_attach *c = &w->attach->cmd;

	w->topic = (struct topic){
		.name = c->stub,
		.id = c->stub_id,
		.created_at = c->created_at,
		.role = STR_LIT(TOPIC_ROLE_CHILD),
		.parent = c->parent,
		.attach_epoch = c->epoch,
		.fanout_delay_ms = c->delay_ms,
		.remote = &c->remote,
	};
	svc_write_plan_tail(t, &nothing);
}

static void put_warnings(const struct svc_task *t, struct json_writer *w)
{
	json_key(w, "warnings");
	json_begin_array(w);
	if (t->write->attach->warning)
		json_put_cstr(w, t->write->attach->warning);
	json_end_array(w);
}

/* Nobody here asks the remote anything: there are no checks to show. */
static enum svc_verdict answer_dry_run(struct svc_task *t, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	json_begin_object(&w);
	json_field_bool(&w, "dry_run", true);
	json_field_bool(&w, "would", true);
	json_key(&w, "attach_offsets");
	json_begin_array(&w);
	json_end_array(&w);
	json_key(&w, "checks");
	json_begin_array(&w);
	json_end_array(&w);
	put_warnings(t, &w);
	json_end_object(&w);
	svc_answer_json(a, 200);
	a->index = fsm_reader_index(&t->svc->reader);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict attach_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v;

	if (!is_admin(t, a))
		return SVC_VERDICT_REFUSED;
	v = svc_write_needs(t, CMD_REMOTE_CHILD_ATTACH, a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_load_topic(t, txn, NULL, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	plan(t);
	v = svc_write_judge(t, txn, CMD_REMOTE_CHILD_ATTACH, &w->attach->cmd, a, rc);
	if (v == SVC_VERDICT_OK)
		v = judge_names(t, txn, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	if (w->body.attach.dry_run.value)
		return answer_dry_run(t, a);
	plan_stub(t);
	return SVC_VERDICT_OK;
}

static void attach_build(struct svc_task *t, struct entry_builder *b)
{
	entry_builder_add(b, CMD_REMOTE_CHILD_ATTACH, &t->write->attach->cmd);
}

static void attach_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct json_writer w;

	svc_write_answer_topic(t, 201, index, a);
	if (!t->write->attach->warning)
		return;
	svc_fail_open(a, &w); /* takes the last brace back, as it does of an error */
	put_warnings(t, &w);
	svc_fail_close(a, &w);
}

const struct svc_write_kind svc_remote_attach_kind = {
	.check = attach_check,
	.build = attach_build,
	.answer = attach_answer,
};

/* ---- pause, resume, skip ---- */

static bool refuse_field(struct svc_answer *a, const char *field, const char *rule)
{
	svc_fail(a, 400, "bad_field", field, "%s: %s", field, rule);
	return false;
}

static bool pause_parse(struct svc_task *t, struct svc_answer *a)
{
	struct child_pause *b = &t->write->body.pause;

	if (!svc_remotes_allowed(t->svc, a) || (t->rq.body.len > 0 && !svc_write_read_body(t, &child_pause_type, b, a)))
		return false;
	return rule_pause_reason(b->reason) || refuse_field(a, "reason", "at most 256 bytes of printable text");
}

static bool resume_parse(struct svc_task *t, struct svc_answer *a)
{
	return svc_remotes_allowed(t->svc, a) &&
	       (t->rq.body.len == 0 || svc_write_read_body(t, &child_resume_type, &t->write->body.resume, a));
}

static bool skip_parse(struct svc_task *t, struct svc_answer *a)
{
	struct child_skip *b = &t->write->body.skip;

	if (!svc_remotes_allowed(t->svc, a) || !svc_write_read_body(t, &child_skip_type, b, a))
		return false;
	if (!b->partition.set || b->partition.value < 0)
		return refuse_field(a, "partition", "is required and not negative");
	return (b->offset.set && b->offset.value >= 0) || refuse_field(a, "offset", "is required and not negative");
}

/* What the request changes, in the task's arena. */
static struct cmd_remote_child_state *state_command(struct svc_task *t)
{
	struct svc_write *w = t->write;
	struct cmd_remote_child_state *c = arena_zalloc(&t->arena, sizeof(*c));
	struct cmd_remote_pause *p = arena_zalloc(&t->arena, sizeof(*p));
	struct cmd_remote_skip *s = arena_zalloc(&t->arena, sizeof(*s));

	c->parent = t->rq.topic;
	c->stub = t->rq.child;
	c->epoch = w->partner.attach_epoch;
	c->actor = str_of(t->rq.principal.name);
	c->request_id = str_of(t->rq.origin);
	switch (t->rq.op) {
	case SVC_CHILD_PAUSE:
		*p = (struct cmd_remote_pause){ true, w->body.pause.reason, c->actor, (int64_t)clock_wall_ms() };
		c->pause = p;
		break;
	case SVC_CHILD_RESUME:
		c->pause = p;
		/* Whatever the target is by now: who sends there sees it next, and nobody here can look. */
		if (w->body.resume.accept_target.value)
			c->target_id = (struct str){ "", 0 };
		break;
	default: *s = (struct cmd_remote_skip){ w->body.skip.partition.value, w->body.skip.offset.value }; c->skip = s;
	}
	return c;
}

static enum svc_verdict state_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = svc_write_needs(t, CMD_REMOTE_CHILD_STATE, a);

	if (v == SVC_VERDICT_OK)
		v = svc_write_load_topic(t, txn, NULL, a, rc);
	if (v == SVC_VERDICT_OK)
		v = svc_write_load_partner(t, txn, t->rq.child, FSM_CHILD_NOT_FOUND, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	w->state = state_command(t);
	if (w->state->skip && w->state->skip->partition >= w->topic.partitions) {
		svc_fail_refusal(a, FSM_PARTITION_RANGE, "", fsm_reader_index(&t->svc->reader));
		return SVC_VERDICT_REFUSED;
	}
	v = svc_write_judge(t, txn, CMD_REMOTE_CHILD_STATE, w->state, a, rc);
	w->topic = w->partner; /* the answer is the stub's */
	return v;
}

static void state_build(struct svc_task *t, struct entry_builder *b)
{
	entry_builder_add(b, CMD_REMOTE_CHILD_STATE, t->write->state);
}

static void state_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	svc_write_answer_topic(t, 200, index, a);
}

const struct svc_write_kind svc_child_pause_kind = {
	.parse = pause_parse,
	.check = state_check,
	.build = state_build,
	.answer = state_answer,
};

const struct svc_write_kind svc_child_resume_kind = {
	.parse = resume_parse,
	.check = state_check,
	.build = state_build,
	.answer = state_answer,
};

const struct svc_write_kind svc_child_skip_kind = {
	.parse = skip_parse,
	.check = state_check,
	.build = state_build,
	.answer = state_answer,
};
