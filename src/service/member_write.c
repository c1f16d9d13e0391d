/* The writes of members: what brokers ask in their own name (register, heartbeat, leave) and what operators say about
 * members (cordon and labels, decommission, lost).
 *
 * A broker's requests but the first carry its session. The session stands as a command of its own before the others in
 * the entry, so that a process whose successor registered meanwhile is refused by the log itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "service/settings.h"
#include "service/write.h"

/* ---- what they share ---- */

enum svc_verdict svc_write_may_act_as(struct svc_task *t, struct str id, struct svc_answer *a)
{
	if (rights_may(t->write->rights, "member", id))
		return SVC_VERDICT_OK;
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader),
	               "acting as this member needs the grant member on its id, or admin");
	return SVC_VERDICT_REFUSED;
}

/* The stored record into w->member. */
static enum svc_verdict load_member(struct svc_task *t, struct store_txn *txn, struct fsm_member_extra *x,
                                    struct svc_answer *a, int *rc)
{
	struct str record;
	int r = rule_member_id(t->rq.member_id) ? fsm_get_member_record(txn, t->rq.member_id, &record) : ERR_NOTFOUND;

	if (r == ERR_NOTFOUND)
		return svc_write_refuse(t, FSM_MEMBER_NOT_FOUND, "", a);
	if (r == 0) {
		const struct str copy = arena_str(&t->arena, record);

		r = record_read_json(&member_type, copy, &t->arena, &t->write->member, NULL, NULL);
	}
	if (r == 0)
		r = fsm_get_member_extra(txn, t->rq.member_id, x);
	if (r == 0)
		return SVC_VERDICT_OK;
	*rc = r;
	return SVC_VERDICT_FAILED;
}

static bool is_configured_server(struct svc_task *t, struct str id)
{
	const struct node_status *st = svc_node_status(t->svc, NULL);

	for (uint32_t i = 0; i < st->conf.count; i++) {
		if (str_is(id, st->conf.servers[i].name))
			return true;
	}
	return false;
}

static void answer_member(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct store_txn *txn;
	uint64_t tag = 0;
	struct err e;

	a->index = index;
	if (fsm_read(&t->svc->reader, &txn, &e) != 0 || svc_put_member(t->svc, txn, t->rq.member_id, a, &tag) != 0) {
		/* It is done, and the member is gone again already. */
		buf_clear(&a->body);
		buf_puts(&a->body, "{}");
	}
	svc_answer_json(a, 200);
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
	if (v == SVC_VERDICT_OK && is_configured_server(t, cmd.id))
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
		v = load_member(t, txn, &x, a, rc);
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

/* ---- cordon, labels ---- */

static bool patch_parse(struct svc_task *t, struct svc_answer *a)
{
	struct member_patch *b = &t->write->body.member_patch;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	return svc_write_read_body(t, &member_patch_type, b, a) &&
	       svc_write_check_rules(rules_check_member_patch(b, &fault, &e), &fault, &e, a);
}

static enum svc_verdict patch_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct member_patch *b = &t->write->body.member_patch;
	const struct cmd_member_labels labels = { t->rq.member_id, b->labels };
	struct fsm_member_extra x;
	enum svc_verdict v = load_member(t, txn, &x, a, rc);

	if (v == SVC_VERDICT_OK && b->placeable.set)
		v = svc_write_needs(t, CMD_MEMBER_CORDON, a);
	if (v != SVC_VERDICT_OK || b->labels.count == 0)
		return v;
	v = svc_write_needs(t, CMD_MEMBER_LABELS, a);
	return v == SVC_VERDICT_OK ? svc_write_judge(t, txn, CMD_MEMBER_LABELS, &labels, a, rc) : v;
}

static void patch_build(struct svc_task *t, struct entry_builder *b)
{
	const struct member_patch *p = &t->write->body.member_patch;
	const struct cmd_member_cordon cordon = { t->rq.member_id, !p->placeable.value };
	const struct cmd_member_labels labels = { t->rq.member_id, p->labels };

	if (p->placeable.set)
		entry_builder_add(b, CMD_MEMBER_CORDON, &cordon);
	if (p->labels.count > 0 || !p->placeable.set)
		entry_builder_add(b, CMD_MEMBER_LABELS, &labels);
}

const struct svc_write_kind svc_member_patch_kind = {
	.parse = patch_parse,
	.check = patch_check,
	.build = patch_build,
	.answer = answer_member,
};

/* ---- decommission ---- */

/* Narad's fields and those of every dry run here. */
static enum svc_verdict decommission_dry_run(struct svc_task *t, const struct fsm_member_extra *x,
                                             const struct svc_fault *faults, size_t count, struct svc_answer *a)
{
	const struct node_status *st = svc_node_status(t->svc, NULL);
	struct json_writer w = { .out = &a->body };
	bool voter = false;

	for (uint32_t i = 0; i < st->conf.count; i++)
		voter |= str_is(t->rq.member_id, st->conf.servers[i].name) && st->conf.servers[i].voter;
	json_begin_object(&w);
	json_field_bool(&w, "dry_run", true);
	json_field_bool(&w, "would", count == 0);
	json_key(&w, "intents");
	json_begin_array(&w);
	if (count == 0) {
		json_begin_object(&w);
		json_field_cstr(&w, "op", "drain");
		json_field_str(&w, "id", t->rq.member_id);
		json_end_object(&w);
	}
	json_end_array(&w);
	json_field_str(&w, "member", t->rq.member_id);
	json_field_bool(&w, "would_decommission", count == 0);
	json_key(&w, "reasons");
	svc_put_faults(&w, faults, count);
	json_field_bool(&w, "voter", voter);
	json_field_u64(&w, "owned_partitions", x->counts.owned);
	json_field_u64(&w, "inbound_moves", x->counts.coming);
	json_end_object(&w);
	svc_answer_json(a, 200);
	a->index = fsm_reader_index(&t->svc->reader);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict refuse_decommission(struct svc_task *t, const struct svc_fault *faults, size_t count,
                                            struct svc_answer *a)
{
	struct json_writer w;
	struct buf text = { 0 };

	for (size_t i = 0; i < count; i++)
		buf_printf(&text, "%s%s", i ? "; " : "", faults[i].text);
	svc_fail_write(a, 409, faults[0].code, "none", fsm_reader_index(&t->svc->reader),
	               "decommission of " STR_FMT " refused: %s", STR_ARG(t->rq.member_id), buf_cstr(&text));
	buf_fini(&text);
	svc_fail_open(a, &w);
	json_key(&w, "reasons");
	svc_put_faults(&w, faults, count);
	svc_fail_close(a, &w);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict decommission_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_fault faults[SVC_FAULTS_MAX];
	struct fsm_member_extra x;
	enum svc_verdict v = load_member(t, txn, &x, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	const struct fsm_member m = { .id = t->rq.member_id, .alive = str_is(t->write->member.status, MEMBER_ALIVE) };
	const int count = svc_decommission_faults(t->svc, txn, &m, faults);

	if (count < 0) {
		*rc = count;
		return SVC_VERDICT_FAILED;
	}
	if (t->rq.dry_run)
		return decommission_dry_run(t, &x, faults, (size_t)count, a);
	return count > 0 ? refuse_decommission(t, faults, (size_t)count, a) : SVC_VERDICT_OK;
}

static void decommission_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_member_draining cmd = { t->rq.member_id, t->rq.op == SVC_MEMBER_DECOMMISSION };

	entry_builder_add(b, CMD_MEMBER_DRAINING, &cmd);
}

const struct svc_write_kind svc_member_decommission_kind = {
	.uses_reserve = true,
	.check = decommission_check,
	.build = decommission_build,
	.answer = svc_write_answer_nothing,
};

static enum svc_verdict recommission_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct fsm_member_extra x;

	return load_member(t, txn, &x, a, rc);
}

const struct svc_write_kind svc_member_recommission_kind = {
	.uses_reserve = true,
	.check = recommission_check,
	.build = decommission_build,
	.answer = svc_write_answer_nothing,
};

/* ---- lost ---- */

static bool lost_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct member_lost *b = &w->body.member_lost;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	if (t->rq.body.len > 0 && !svc_write_read_body(t, &member_lost_type, b, a))
		return false;
	w->created_at = (int64_t)(clock_wall_ms() / 1000);
	return svc_write_check_rules(rules_check_member_lost(b, &fault, &e), &fault, &e, a);
}

/* Single copies that nobody else has; moves to it, which end; copies of others' partitions. */
static void put_counts(struct json_writer *w, const struct fsm_member_counts *n)
{
	json_field_u64(w, "unplaced", n->owned - n->leads);
	json_field_u64(w, "moves_ended", n->coming);
	json_field_u64(w, "leaders_lost", n->leads);
	json_field_u64(w, "replicas_dropped", (uint64_t)n->leads + n->follows);
}

static enum svc_verdict refuse_loss(struct svc_task *t, struct svc_answer *a)
{
	const struct fsm_member_counts *n = &t->write->counts;
	struct json_writer w;

	svc_fail_write(a, 409, "data_loss", "none", fsm_reader_index(&t->svc->reader),
	               "giving up " STR_FMT " loses %" PRIu32 " partitions that it alone holds; accept_data_loss: true "
	               "allows it",
	               STR_ARG(t->rq.member_id), n->owned - n->leads);
	svc_fail_open(a, &w);
	put_counts(&w, n);
	svc_fail_close(a, &w);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict lost_would(struct svc_task *t, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	svc_dry_run_begin(&w, true);
	json_begin_object(&w);
	json_field_cstr(&w, "op", "lost");
	json_field_str(&w, "id", t->rq.member_id);
	put_counts(&w, &t->write->counts);
	json_end_object(&w);
	svc_dry_run_end(&w, NULL, NULL);
	svc_answer_json(a, 200);
	a->index = fsm_reader_index(&t->svc->reader);
	return SVC_VERDICT_REFUSED;
}

static struct cmd_member_lost lost_command(const struct svc_task *t)
{
	const struct str reason = t->write->body.member_lost.reason;

	return (struct cmd_member_lost){ t->rq.member_id, t->write->created_at,
		                         reason.p ? reason : (struct str){ "", 0 } };
}

static enum svc_verdict judge_lost(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct cmd_member_lost cmd = lost_command(t);
	enum svc_verdict v = svc_write_needs(t, CMD_MEMBER_LOST, a);

	if (v == SVC_VERDICT_OK)
		v = svc_write_judge(t, txn, CMD_MEMBER_LOST, &cmd, a, rc);
	if (v == SVC_VERDICT_OK && is_configured_server(t, t->rq.member_id)) {
		svc_fail_write(a, 409, "member_is_server", "none", fsm_reader_index(&t->svc->reader),
		               STR_FMT
		               " is a server of the cluster; take it out first (servers remove), then give it up",
		               STR_ARG(t->rq.member_id));
		return SVC_VERDICT_REFUSED;
	}
	return v == SVC_VERDICT_OK && !t->write->body.member_lost.accept_data_loss.value ? refuse_loss(t, a) : v;
}

static enum svc_verdict lost_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct fsm_member_extra x;
	enum svc_verdict v = load_member(t, txn, &x, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	t->write->counts = x.counts;
	v = judge_lost(t, txn, a, rc);
	if (!t->rq.dry_run)
		return v;
	if (v == SVC_VERDICT_OK)
		return lost_would(t, a);
	if (v == SVC_VERDICT_REFUSED)
		svc_dry_run_refused(a, &t->arena);
	return v;
}

static void lost_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_member_lost cmd = lost_command(t);

	entry_builder_add(b, CMD_MEMBER_LOST, &cmd);
}

static void lost_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	const struct fsm_member_counts *n = &t->write->counts;
	struct json_writer w = { .out = &a->body };

	log_warn("audit.member_lost", "member=" STR_FMT " unplaced=%" PRIu32 " moves_ended=%" PRIu32 " index=%" PRIu64,
	         STR_ARG(t->rq.member_id), n->owned - n->leads, n->coming, index);
	json_begin_object(&w);
	json_field_str(&w, "id", t->rq.member_id);
	put_counts(&w, n);
	json_field_u64(&w, "index", index);
	json_end_object(&w);
	svc_answer_json(a, 200);
	a->index = index;
}

const struct svc_write_kind svc_member_lost_kind = {
	.uses_reserve = true,
	.parse = lost_parse,
	.check = lost_check,
	.build = lost_build,
	.answer = lost_answer,
};
