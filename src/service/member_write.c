/* What operators say about members: cordon and labels, decommission, lost. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "service/write.h"

/* ---- what they share ---- */

enum svc_verdict svc_write_load_member(struct svc_task *t, struct store_txn *txn, struct fsm_member_extra *x,
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

bool svc_write_is_configured(struct svc_task *t, struct str id)
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
	enum svc_verdict v = svc_write_load_member(t, txn, &x, a, rc);

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
	enum svc_verdict v = svc_write_load_member(t, txn, &x, a, rc);

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

	return svc_write_load_member(t, txn, &x, a, rc);
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
	if (v == SVC_VERDICT_OK && svc_write_is_configured(t, t->rq.member_id)) {
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
	enum svc_verdict v = svc_write_load_member(t, txn, &x, a, rc);

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
