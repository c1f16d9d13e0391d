/* Setting, completing and aborting moves: compare-and-set writes on what the request says it has read.
 *
 * Whatever is already so is answered as if it had been done now, from a confirmed state: a request may be sent again.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "fsm/assignments.h"
#include "service/moves.h"

/* The partition of the path as it stands, into w->moves. Refuses another incarnation than `expect` (p NULL: any). */
static enum svc_verdict load(struct svc_task *t, struct store_txn *txn, struct str expect, struct svc_answer *a,
                             int *rc)
{
	struct svc_write *w = t->write;
	struct fsm_topic stored;
	struct fsm_owner o;
	enum svc_verdict v = svc_write_load_partition(t, txn, expect, &stored, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	fsm_topic_owner(&stored, (uint32_t)t->rq.partition, &o);
	if (o.owner.len == 0)
		return svc_write_refuse(t, FSM_ASSIGNMENT_NOT_FOUND, "", a);
	w->moves = arena_zalloc(&t->arena, sizeof(*w->moves));
	w->move_count = 1;
	*w->moves = (struct svc_move){
		.topic = w->topic.name,
		.topic_id = w->topic.id,
		.owner = arena_str(&t->arena, o.owner),
		.target = arena_str(&t->arena, o.target),
		.partition = (uint32_t)t->rq.partition,
		.move_id = o.move_id,
		.pinned = o.pinned,
	};
	return SVC_VERDICT_OK;
}

static void answer_assignment(struct svc_task *t, int status, raft_index index, struct svc_answer *a)
{
	static const struct fsm_replicas none;
	const struct svc_move *m = t->write->moves;
	const struct fsm_owner left = {
		.owner = m->owner,
		.target = m->target,
		.version = index,
		.move_id = m->move_id,
		.pinned = m->pinned,
	};

	svc_write_answer_row(t, status, index, &left, &none, a);
}

/* Nothing is to be done: the answer goes out once the state is confirmed. */
static enum svc_verdict already_so(struct svc_task *t, int status, struct svc_answer *a)
{
	answer_assignment(t, status, fsm_reader_index(&t->svc->reader), a);
	return SVC_VERDICT_REFUSED;
}

/* ---- set ---- */

static bool set_parse(struct svc_task *t, struct svc_answer *a)
{
	struct move_set *b = &t->write->body.move;

	if (!svc_write_read_body(t, &move_set_type, b, a))
		return false;
	if (!rule_member_id(b->target))
		return svc_bad_field(a, "target", "target is a member's id: 1 to 63 of A-Z a-z 0-9 . _ -");
	return true;
}

static struct cmd_move_set_if set_command(const struct svc_write *w)
{
	return (struct cmd_move_set_if){
		.topic = w->moves->topic,
		.partition = w->moves->partition,
		.expect_id = w->moves->topic_id,
		.expected_owner = w->moves->owner,
		.expected_target = w->moves->target,
		.target = w->body.move.target,
	};
}

/* A pin may be set where nothing moves: with the owner as target. */
static enum svc_verdict set_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct move_set *b = &w->body.move;
	enum svc_verdict v = load(t, txn, b->topic_id, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	const struct svc_move *m = w->moves;

	w->sets_pin = b->pin.set && b->pin.value != m->pinned;
	w->sets_target = !str_eq(b->target, m->target) && !(w->sets_pin && str_eq(b->target, m->owner));
	if (b->expected_target.p && !str_eq(b->expected_target, m->target) && w->sets_target)
		return svc_write_refuse(t, FSM_MOVE_CHANGED, "", a);
	if (w->sets_target && !b->expected_target.p && m->target.len > 0)
		return svc_write_refuse(t, FSM_MOVE_IN_FLIGHT, "", a);
	if (w->sets_target) {
		struct cmd_move_set_if cmd = set_command(w);

		v = svc_write_judge(t, txn, CMD_MOVE_SET_IF, &cmd, a, rc);
		if (v == SVC_VERDICT_OK)
			v = svc_write_needs(t, CMD_MOVE_SET_IF, a);
	}
	if (v == SVC_VERDICT_OK && w->sets_pin)
		v = svc_write_needs(t, CMD_PARTITION_PIN, a);
	if (v == SVC_VERDICT_OK && !w->sets_pin && !w->sets_target)
		return already_so(t, 202, a);
	return v;
}

static void set_build(struct svc_task *t, struct entry_builder *b)
{
	struct svc_write *w = t->write;
	struct svc_move *m = w->moves;
	const struct cmd_move_set_if set = set_command(w);
	const struct cmd_partition_pin pin = { m->topic, m->partition, m->topic_id, w->body.move.pin.value };

	if (w->sets_target)
		entry_builder_add(b, CMD_MOVE_SET_IF, &set);
	if (w->sets_pin)
		entry_builder_add(b, CMD_PARTITION_PIN, &pin);
}

static void set_intents(struct svc_task *t, struct json_writer *w)
{
	const struct svc_write *wr = t->write;

	json_begin_object(w);
	json_field_cstr(w, "op", "move");
	json_field_str(w, "topic", wr->moves->topic);
	json_field_u64(w, "partition", wr->moves->partition);
	json_field_str(w, "from", wr->moves->owner);
	json_field_str(w, "to", wr->body.move.target);
	if (wr->sets_pin)
		json_field_bool(w, "pin", wr->body.move.pin.value);
	json_end_object(w);
}

static void set_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct svc_write *w = t->write;

	if (w->sets_target) {
		w->moves->target = w->body.move.target;
		w->moves->move_id = index;
	}
	if (w->sets_pin)
		w->moves->pinned = w->body.move.pin.value;
	answer_assignment(t, 202, index, a);
}

const struct svc_write_kind svc_move_set_kind = {
	.parse = set_parse,
	.check = set_check,
	.build = set_build,
	.intents = set_intents,
	.answer = set_answer,
};

/* ---- progress ---- */

static bool progress_parse(struct svc_task *t, struct svc_answer *a)
{
	struct move_progress *b = &t->write->body.progress;

	if (!svc_write_read_body(t, &move_progress_type, b, a))
		return false;
	if (!str_is(b->phase, "copying") && !str_is(b->phase, "frozen"))
		return svc_bad_field(a, "phase", "phase is copying or frozen");
	return true;
}

/* Nothing is proposed: it is taken down once the state that knows the move is confirmed. */
static enum svc_verdict progress_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct move_progress *b = &w->body.progress;
	enum svc_verdict v = load(t, txn, b->topic_id, a, rc);
	const struct svc_progress_report said = {
		.frozen = str_is(b->phase, "frozen"),
		.copied_bytes = b->copied_bytes.value,
		.total_bytes = b->total_bytes.value,
		.at_ms = clock_wall_ms(),
	};

	if (v != SVC_VERDICT_OK)
		return v;
	if (w->moves->target.len == 0 || w->moves->move_id != b->move_id.value)
		return svc_write_refuse(t, FSM_MOVE_CHANGED, "", a);
	v = svc_write_check_sender(t, txn, w->moves->target, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	svc_progress_note(t->svc->shared->progress, w->moves, &said);
	return already_so(t, 200, a);
}

const struct svc_write_kind svc_move_progress_kind = {
	.uses_reserve = true,
	.parse = progress_parse,
	.check = progress_check,
};

/* ---- complete ---- */

static bool complete_parse(struct svc_task *t, struct svc_answer *a)
{
	struct move_complete *b = &t->write->body.complete;

	if (!svc_write_read_body(t, &move_complete_type, b, a))
		return false;
	if (!rule_member_id(b->target))
		return svc_bad_field(a, "target", "target is a member's id: 1 to 63 of A-Z a-z 0-9 . _ -");
	return true;
}

static enum svc_verdict refuse_dead(struct svc_task *t, struct svc_answer *a, const char *text)
{
	svc_fail_write(a, 409, "source_dead", "none", fsm_reader_index(&t->svc->reader), "%s", text);
	return SVC_VERDICT_REFUSED;
}

/* A dead source may hold writes that the target lacks: its copy counts until somebody says otherwise, and long enough
 * has passed for it to come back. */
static enum svc_verdict judge_source(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct svc_write *w = t->write;
	struct str record;
	struct member m;
	int r = fsm_get_member_record(txn, w->moves->owner, &record);

	if (r == 0)
		r = record_read_json(&member_type, record, &t->arena, &m, NULL, NULL);
	if (r != 0 && r != ERR_NOTFOUND) {
		*rc = r;
		return SVC_VERDICT_FAILED;
	}
	if (r == 0 && str_is(m.status, MEMBER_ALIVE))
		return SVC_VERDICT_OK;
	if (!w->body.complete.force.value)
		return refuse_dead(
		    t, a,
		    "the source is dead and may hold what the target lacks; start it, abort the move, or "
		    "complete with force once it was dead for 120 s");
	const int64_t now_s = (int64_t)(clock_wall_ms() / 1000);

	if (r == 0 && now_s - m.last_heartbeat < SVC_FORCE_AFTER_S)
		return refuse_dead(t, a, "the source was heard less than 120 s ago; force counts only after that");
	return SVC_VERDICT_OK;
}

static struct cmd_move_complete_if complete_command(const struct svc_write *w)
{
	return (struct cmd_move_complete_if){
		.topic = w->moves->topic,
		.partition = w->moves->partition,
		.expect_id = w->moves->topic_id,
		.move_id = w->body.complete.move_id.value,
		.expected_owner = w->body.complete.expected_owner,
		.target = w->body.complete.target,
	};
}

static enum svc_verdict complete_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = load(t, txn, w->body.complete.topic_id, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_check_sender(t, txn, w->body.complete.target, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	if (str_eq(w->moves->owner, w->body.complete.target))
		return already_so(t, 200, a);
	const struct cmd_move_complete_if cmd = complete_command(w);

	v = svc_write_judge(t, txn, CMD_MOVE_COMPLETE_IF, &cmd, a, rc);
	if (v == SVC_VERDICT_OK)
		v = judge_source(t, txn, a, rc);
	return v == SVC_VERDICT_OK ? svc_write_needs(t, CMD_MOVE_COMPLETE_IF, a) : v;
}

static void complete_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_move_complete_if cmd = complete_command(t->write);

	if (t->rq.session.p)
		svc_write_build_session(t, cmd.target, b);
	entry_builder_add(b, CMD_MOVE_COMPLETE_IF, &cmd);
}

static void complete_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	t->write->moves->owner = t->write->body.complete.target;
	t->write->moves->target = STR_LIT("");
	answer_assignment(t, 200, index, a);
}

const struct svc_write_kind svc_move_complete_kind = {
	.uses_reserve = true,
	.parse = complete_parse,
	.check = complete_check,
	.build = complete_build,
	.answer = complete_answer,
};

/* ---- abort ---- */

static enum svc_verdict abort_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	enum svc_verdict v = load(t, txn, (struct str){ NULL, 0 }, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	if (t->write->moves->target.len == 0)
		return svc_write_refuse(t, FSM_NO_MOVE, "", a);
	if (t->rq.target.p && !str_eq(t->rq.target, t->write->moves->target))
		return svc_write_refuse(t, FSM_MOVE_CHANGED, "", a);
	return svc_write_needs(t, CMD_MOVE_ABORT_IF, a);
}

static enum svc_verdict abort_all_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;

	*rc = svc_moves_read(txn, &t->arena, SVC_MOVES_PER_ENTRY, &w->moves, &w->move_count, &w->more_moves);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	if (w->move_count > 0)
		return svc_write_needs(t, CMD_MOVE_ABORT_IF, a);
	buf_puts(&a->body, "{\"moves\":[],\"more\":false}");
	svc_answer_json(a, 200);
	a->index = fsm_reader_index(&t->svc->reader);
	return SVC_VERDICT_REFUSED;
}

static void abort_build(struct svc_task *t, struct entry_builder *b)
{
	const struct svc_write *w = t->write;

	for (size_t i = 0; i < w->move_count; i++) {
		const struct svc_move *m = &w->moves[i];
		const struct cmd_move_abort_if cmd = { m->topic, m->partition, m->topic_id, m->move_id };

		entry_builder_add(b, CMD_MOVE_ABORT_IF, &cmd);
	}
}

static void abort_intents(struct svc_task *t, struct json_writer *w)
{
	for (size_t i = 0; i < t->write->move_count; i++) {
		const struct svc_move *m = &t->write->moves[i];

		json_begin_object(w);
		json_field_cstr(w, "op", "abort");
		json_field_str(w, "topic", m->topic);
		json_field_u64(w, "partition", m->partition);
		json_field_str(w, "from", m->owner);
		json_field_str(w, "to", m->target);
		json_end_object(w);
	}
}

static const struct fsm_members *members_of(struct svc_task *t)
{
	static const struct fsm_members none; /* every status is then not_a_member */
	const struct fsm_members *members;
	struct store_txn *txn;
	struct err e;

	if (fsm_read(&t->svc->reader, &txn, &e) == 0 && fsm_reader_members(&t->svc->reader, &members, &e) == 0)
		return members;
	return &none;
}

static void abort_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	json_begin_object(&w);
	json_key(&w, "move");
	svc_put_move(&w, t->svc, t->write->moves, members_of(t), false);
	json_field_cstr(&w, "note",
	                "the move is aborted: the source keeps the partition, the target deletes what it "
	                "copied");
	json_end_object(&w);
	svc_answer_json(a, 202);
	a->index = index;
}

static void abort_all_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	const struct fsm_members *members = members_of(t);

	json_begin_object(&w);
	json_key(&w, "moves");
	json_begin_array(&w);
	for (size_t i = 0; i < t->write->move_count; i++)
		svc_put_move(&w, t->svc, &t->write->moves[i], members, false);
	json_end_array(&w);
	json_field_bool(&w, "more", t->write->more_moves);
	json_end_object(&w);
	svc_answer_json(a, 202);
	a->index = index;
}

const struct svc_write_kind svc_move_abort_kind = {
	.uses_reserve = true,
	.check = abort_check,
	.build = abort_build,
	.intents = abort_intents,
	.answer = abort_answer,
};

const struct svc_write_kind svc_move_abort_all_kind = {
	.uses_reserve = true,
	.check = abort_all_check,
	.build = abort_build,
	.intents = abort_intents,
	.answer = abort_all_answer,
};
