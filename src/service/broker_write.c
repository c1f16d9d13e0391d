/* What brokers ask in their own name: register, heartbeat, leave.
 *
 * A broker's requests but the first carry its session. The session stands as a command of its own before the others in
 * the entry, so that a process whose successor registered meanwhile is refused by the log itself. */
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "service/settings.h"
#include "service/write.h"

enum svc_verdict svc_write_may_act_as(struct svc_task *t, struct str id, struct svc_answer *a)
{
	if (rights_may(t->write->rights, "member", id))
		return SVC_VERDICT_OK;
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader),
	               "acting as this member needs the grant member on its id, or admin");
	return SVC_VERDICT_REFUSED;
}

/* ---- register ---- */

static bool register_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct member_register *b = &w->body.member_register;
	struct record_fault fault = { 0 };
	struct err e = { 0 };
	uint64_t session;

	if (!svc_write_read_body(t, &member_register_type, b, a) ||
	    !svc_write_check_rules(rules_check_member_register(b, &fault, &e), &fault, &e, a))
		return false;
	rand_secure(&session, sizeof(session));
	hex64(w->id, session);
	w->created_at = (int64_t)(clock_wall_ms() / 1000);
	return true;
}

static struct cmd_member_register register_command(const struct svc_write *w)
{
	const struct member_register *b = &w->body.member_register;

	return (struct cmd_member_register){
		.id = b->id,
		.addr = b->addr,
		.tags = b->tags,
		.store_id = b->store_id.p ? b->store_id : (struct str){ "", 0 },
		.session = str_of(w->id),
		.at = w->created_at,
		.fresh = b->fresh.value,
		.accept_data_loss = b->accept_data_loss.value,
	};
}

static enum svc_verdict register_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct cmd_member_register cmd = register_command(t->write);
	enum svc_verdict v = svc_write_may_act_as(t, cmd.id, a);

	if (v == SVC_VERDICT_OK)
		v = svc_write_needs(t, CMD_MEMBER_REGISTER, a);
	/* A server that has not registered yet has no row that the state machine could see. */
	if (v == SVC_VERDICT_OK && svc_write_is_configured(t, cmd.id))
		return svc_write_refuse(t, FSM_MEMBER_IS_SERVER, "", a);
	return v == SVC_VERDICT_OK ? svc_write_judge(t, txn, CMD_MEMBER_REGISTER, &cmd, a, rc) : v;
}

static void register_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_member_register cmd = register_command(t->write);

	entry_builder_add(b, CMD_MEMBER_REGISTER, &cmd);
}

static void register_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	const struct svc_shared *sh = t->svc->shared;
	struct json_writer w = { .out = &a->body };
	struct store_txn *txn;
	char hex[HEX64_SIZE];
	uint64_t tag = 0;
	struct err e;

	json_begin_object(&w);
	json_key(&w, "member");
	if (fsm_read(&t->svc->reader, &txn, &e) != 0 ||
	    svc_put_member(t->svc, txn, t->write->body.member_register.id, a, &tag) != 0)
		json_put_null(&w); /* removed again already */
	w.comma = true;
	json_field_cstr(&w, "session", t->write->id);
	hex64(hex, svc_node_status(t->svc, NULL)->cluster_id);
	json_field_cstr(&w, "cluster_id", hex);
	json_field_u64(&w, "heartbeat_ms", (uint64_t)svc_setting(sh, FSM_SETTING_MEMBER_HEARTBEAT_MS));
	json_field_u64(&w, "dead_after_ms", (uint64_t)svc_setting(sh, FSM_SETTING_DEAD_AFTER_S) * 1000);
	json_field_u64(&w, "index", index);
	json_end_object(&w);
	svc_answer_json(a, 201);
	a->index = index;
}

const struct svc_write_kind svc_member_register_kind = {
	.parse = register_parse,
	.check = register_check,
	.build = register_build,
	.answer = register_answer,
};

/* ---- a broker's session ---- */

/* X-Veena-Session: ID:SESSION, of this member. */
static enum svc_verdict read_session(struct svc_task *t, struct str id, struct cmd_member_session *out,
                                     struct svc_answer *a)
{
	const struct str field = t->rq.session;
	const char *colon = field.len ? memchr(field.p, ':', field.len) : NULL;
	const size_t before = colon ? (size_t)(colon - field.p) : 0;

	*out = (struct cmd_member_session){ { "", 0 }, { "", 0 } };
	if (colon)
		*out = (struct cmd_member_session){ { field.p, before }, { colon + 1, field.len - before - 1 } };
	if (str_eq(out->id, id) && out->session.len > 0 && out->session.len <= INCARNATION_LEN)
		return SVC_VERDICT_OK;
	svc_fail(a, 400, "bad_parameter", "X-Veena-Session",
	         field.p ? "X-Veena-Session is ID:SESSION, with the id of the member that asks and the session that "
	                   "register gave"
	                 : "this request needs the header X-Veena-Session: ID:SESSION, as register gave it");
	return SVC_VERDICT_FAILED;
}

static enum svc_verdict check_session(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct cmd_member_session session;
	struct fsm_member_extra x;
	enum svc_verdict v = svc_write_may_act_as(t, t->rq.member_id, a);

	/* Whoever is not known hears that first: it registers, whatever session it has. */
	if (v == SVC_VERDICT_OK)
		v = svc_write_load_member(t, txn, &x, a, rc);
	if (v == SVC_VERDICT_OK && x.kind == FSM_KIND_SERVER)
		return svc_write_refuse(t, FSM_MEMBER_IS_SERVER, "", a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_needs(t, CMD_MEMBER_SESSION, a);
	if (v == SVC_VERDICT_OK)
		v = read_session(t, t->rq.member_id, &session, a);
	return v == SVC_VERDICT_OK ? svc_write_judge(t, txn, CMD_MEMBER_SESSION, &session, a, rc) : v;
}

void svc_write_build_session(struct svc_task *t, struct str id, struct entry_builder *b)
{
	struct svc_answer unused = { 0 };
	struct cmd_member_session session;

	(void)read_session(t, id, &session, &unused); /* it passed in the check */
	buf_fini(&unused.body);
	entry_builder_add(b, CMD_MEMBER_SESSION, &session);
}

static void build_session(struct svc_task *t, struct entry_builder *b)
{
	svc_write_build_session(t, t->rq.member_id, b);
}

enum svc_verdict svc_write_check_sender(struct svc_task *t, struct store_txn *txn, struct str id, struct svc_answer *a,
                                        int *rc)
{
	struct cmd_member_session session;
	struct fsm_member_extra x;
	enum svc_verdict v = svc_write_may_act_as(t, id, a);

	if (v != SVC_VERDICT_OK)
		return v;
	*rc = fsm_get_member_extra(txn, id, &x);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	/* A server has no session, and an operator needs none. */
	if (!t->rq.session.p && (x.kind == FSM_KIND_SERVER || t->write->rights->is_admin))
		return SVC_VERDICT_OK;
	v = read_session(t, id, &session, a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_needs(t, CMD_MEMBER_SESSION, a);
	return v == SVC_VERDICT_OK ? svc_write_judge(t, txn, CMD_MEMBER_SESSION, &session, a, rc) : v;
}

/* How the member stands now: what a broker looks at after each of its requests. */
static void answer_standing(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct fsm_member_extra x = { .placeable = false, .session = { "", 0 } };
	struct member m = t->write->member;
	struct store_txn *txn;
	struct str record;
	struct err e;

	if (fsm_read(&t->svc->reader, &txn, &e) == 0 && fsm_get_member_record(txn, t->rq.member_id, &record) == 0) {
		struct member now;
		const struct str copy = arena_str(&t->arena, record);

		if (record_read_json(&member_type, copy, &t->arena, &now, NULL, NULL) == 0 &&
		    fsm_get_member_extra(txn, t->rq.member_id, &x) == 0)
			m = now;
	}
	json_begin_object(&w);
	json_field_str(&w, "status", m.status);
	json_field_bool(&w, "draining", m.draining);
	json_field_bool(&w, "placeable", x.placeable);
	json_field_str(&w, "session", x.session);
	json_field_u64(&w, "index", index);
	json_end_object(&w);
	svc_answer_json(a, 200);
	a->index = index;
}

/* ---- heartbeat ---- */

/* One that was dead is alive again by it, which takes the whole record. */
static void heartbeat_build(struct svc_task *t, struct entry_builder *b)
{
	const int64_t now_s = (int64_t)(clock_wall_ms() / 1000);
	const struct cmd_member_at beat = { t->rq.member_id, now_s };
	struct member m = t->write->member;

	build_session(t, b);
	if (str_is(m.status, MEMBER_ALIVE)) {
		entry_builder_add(b, CMD_MEMBER_HEARTBEAT, &beat);
		return;
	}
	m.status = STR_LIT(MEMBER_ALIVE);
	m.last_heartbeat = now_s;
	entry_builder_add(b, CMD_MEMBER_JOIN, &m);
}

const struct svc_write_kind svc_member_heartbeat_kind = {
	.uses_reserve = true,
	.check = check_session,
	.build = heartbeat_build,
	.answer = answer_standing,
};

/* ---- leave ---- */

static bool leave_parse(struct svc_task *t, struct svc_answer *a)
{
	struct member_leave *b = &t->write->body.member_leave;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	return svc_write_read_body(t, &member_leave_type, b, a) &&
	       svc_write_check_rules(rules_check_member_leave(b, &fault, &e), &fault, &e, a);
}

static void leave_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_name dead = { t->rq.member_id };
	const struct cmd_member_draining drain = { t->rq.member_id, true };

	build_session(t, b);
	if (str_is(t->write->body.member_leave.mode, MEMBER_LEAVE_RESTART))
		entry_builder_add(b, CMD_MEMBER_DEAD, &dead);
	else
		entry_builder_add(b, CMD_MEMBER_DRAINING, &drain);
}

const struct svc_write_kind svc_member_leave_kind = {
	.uses_reserve = true,
	.parse = leave_parse,
	.check = check_session,
	.build = leave_build,
	.answer = answer_standing,
};
