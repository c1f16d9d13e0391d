#include "service/write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "fsm/idem.h"
#include "service/auth.h"
#include "service/idem.h"
#include "store/store.h"

static void write_check(struct svc_task *t);
static void write_propose(struct svc_task *t);

static void note_stage(struct svc_task *t, enum svc_stage stage)
{
	uint64_t now = clock_mono_ns();

	svc_note_stage(t->svc, stage, now - t->write->began_ns);
	t->write->began_ns = now;
}

/* ---- ends ---- */

void svc_write_drop(struct svc_task *t)
{
	if (t->write) {
		svc_placement_unref(t->write->placement);
		t->write->placement = NULL;
		svc_schema_drop(t);
		svc_hash_drop(t);
	}
	svc_idem_leave(t);
	svc_task_give_name(t);
}

static void write_answer(struct svc_task *t, struct svc_answer *a)
{
	svc_audit(t, a);
	svc_write_drop(t);
	svc_task_answer(t, a);
}

static void write_fail(struct svc_task *t, int status, const char *code, const char *outcome, const char *text)
{
	struct svc_answer a = { 0 };

	svc_fail_write(&a, status, code, outcome, 0, "%s", text);
	write_answer(t, &a);
}

static void write_fail_stopped(struct svc_task *t)
{
	write_fail(t, 503, "stopped", "none", "this node stopped applying; nothing was done, ask another node");
}

static void write_fail_full(struct svc_task *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void write_fail_full(struct svc_task *t, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	write_fail(t, 503, "storage_full", "none", text);
}

static void write_fail_not_leader(struct svc_task *t)
{
	struct svc_answer a = { 0 };

	svc_fail_not_leader(&a);
	write_answer(t, &a);
}

static void write_fail_store(struct svc_task *t, int rc)
{
	log_error("svc.write", "op=%d code=%s error=\"the replica cannot be read\"", (int)t->rq.op, err_name(rc));
	write_fail(t, 503, "not_ready", "none", "this node cannot read its replica; ask another node");
}

/* ---- confirming a refusal ---- */

static void on_confirm_applied(struct svc_task *t, enum svc_wake why)
{
	if (why == SVC_WAKE_TIMEOUT) {
		write_fail(t, 503, "no_leader", "none",
		           "this node did not apply what is committed in time; nothing was done");
		return;
	}
	note_stage(t, SVC_STAGE_CONFIRM);
	t->write->is_confirmed = true;
	write_check(t);
}

static void on_confirm_read(struct svc_task *t, enum svc_wake why)
{
	int code = why == SVC_WAKE_COMPLETED ? t->completion.code : ERR_TIMEOUT;

	if (code == ERR_FULL) {
		write_fail(t, 503, "overloaded", "none",
		           "too many requests wait on the leader; nothing was done, try again");
		return;
	}
	if (code == ERR_NOT_LEADER) {
		write_fail_not_leader(t);
		return;
	}
	if (code != 0) {
		write_fail(t, 503, "no_leader", "none",
		           "no majority confirmed that this node leads; nothing was done, try again");
		return;
	}
	t->write->confirmed = t->completion.index;
	t->resume = on_confirm_applied;
	svc_task_wait_applied(t, t->completion.index, SVC_CONFIRM_MS);
}

/* `a` says why not, as of a state that may be behind: it is thrown away and judged again. */
static void write_confirm(struct svc_task *t, struct svc_answer *a)
{
	buf_fini(&a->body);
	t->resume = on_confirm_read;
	svc_task_wait_read(t, SVC_CONFIRM_MS);
}

/* ---- check ---- */

/* Room in the map and on the leader's disk, which is this node's. */
static bool has_room(struct svc_task *t)
{
	const struct node_room *disk = &svc_node_status(t->svc, NULL)->room;
	struct store_space space;

	if (disk->low && !t->write->kind->uses_reserve) {
		write_fail_full(t,
		                "the disk of %s, the leader, has %" PRIu64 " bytes free and %" PRIu64
		                " in its store to use again, fewer than the %" PRIu64
		                " that are kept for deletes; delete topics or make room there",
		                svc_node_status(t->svc, NULL)->id, disk->free_bytes, disk->reusable_bytes,
		                disk->reserve_bytes);
		return false;
	}
	store_get_space(fsm_store(t->svc->shared->fsm), &space);
	uint64_t limit = space.limit_bytes + (t->write->kind->uses_reserve ? space.reserve_bytes : 0);

	if (space.used_bytes < limit)
		return true;
	write_fail_full(t,
	                "the metadata store of %s, the leader, holds %" PRIu64 " bytes and may hold %" PRIu64
	                "; delete topics, or give it a larger map",
	                svc_node_status(t->svc, NULL)->id, space.used_bytes, limit);
	return false;
}

static void on_placed(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };

	note_stage(t, SVC_STAGE_PLACE);
	if (!svc_place_take(t, why == SVC_WAKE_REACHED, &a)) {
		write_answer(t, &a);
		return;
	}
	write_propose(t);
}

static void on_judged(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };

	note_stage(t, SVC_STAGE_JUDGE);
	if (!svc_schema_take(t, why == SVC_WAKE_REACHED, &a)) {
		write_answer(t, &a);
		return;
	}
	/* Much may have changed meanwhile: everything is checked again, whether the client may included. */
	write_check(t);
}

static void write_judge(struct svc_task *t)
{
	note_stage(t, SVC_STAGE_CHECK);
	if (!svc_schema_ask(t)) {
		write_fail(t, 503, "policy_failed", "none",
		           "nobody judges schemas on the leader at the moment; nothing was done, try again");
		return;
	}
	t->resume = on_judged;
	svc_task_wait_asked(t, SVC_SCHEMA_WAIT_MS);
}

static void on_hashed(struct svc_task *t, enum svc_wake why)
{
	note_stage(t, SVC_STAGE_HASH);
	if (why == SVC_WAKE_TIMEOUT) {
		write_fail(t, 503, "overloaded", "none",
		           "too many passwords wait to be hashed; nothing was done, try again");
		return;
	}
	svc_hash_take(t);
	write_check(t);
}

static void write_hash(struct svc_task *t)
{
	note_stage(t, SVC_STAGE_CHECK);
	if (!svc_hash_begin(t)) {
		write_fail(t, 503, "overloaded", "none",
		           "too many passwords wait to be hashed; nothing was done, try again");
		return;
	}
	t->resume = on_hashed;
	svc_task_wait_expected(t, BCRYPT_WAIT_MS);
}

static void answer_would(struct svc_task *t)
{
	struct svc_answer a = { .index = fsm_reader_index(&t->svc->reader) };
	struct json_writer w = { .out = &a.body };

	svc_dry_run_begin(&w, true);
	if (t->write->kind->intents)
		t->write->kind->intents(t, &w);
	svc_dry_run_end(&w, NULL, NULL);
	svc_answer_json(&a, 200);
	write_answer(t, &a);
}

/* `a` is as the state says. */
static void answer_refused(struct svc_task *t, struct svc_answer *a)
{
	if (t->rq.dry_run && a->status >= 400)
		svc_dry_run_refused(a, &t->arena);
	write_answer(t, a);
}

static void write_go_on(struct svc_task *t)
{
	struct svc_write *w = t->write;

	note_stage(t, SVC_STAGE_CHECK);
	if (t->rq.dry_run) {
		answer_would(t);
		return;
	}
	if (!has_room(t))
		return;
	if (w->want_count == 0 || !svc_place_ask(t)) {
		write_propose(t);
		return;
	}
	t->resume = on_placed;
	svc_task_wait_asked(t, SVC_PLACE_WAIT_MS);
}

/* Before its term's first entry is applied, a new leader's state may lack entries that are committed. */
static void on_term_applied(struct svc_task *t, enum svc_wake why)
{
	if (why == SVC_WAKE_TIMEOUT) {
		write_fail(t, 503, "not_ready", "none",
		           "the new leader has not yet applied what came before its term; nothing was done, try again");
		return;
	}
	write_check(t);
}

/* Whoever asks is known here and holds what the route asks for: on the leader too, and again at each check. */
static enum svc_verdict authorise(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	bool may;

	w->rights = &rights_of_all;
	if (t->rq.grant == SVC_GRANT_NONE) /* the service's own */
		return SVC_VERDICT_OK;
	*rc = auth_check(t->svc, txn, &t->rq, &w->rights, &may, a);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	a->index = may ? 0 : fsm_reader_index(&t->svc->reader);
	return may ? SVC_VERDICT_OK : SVC_VERDICT_REFUSED;
}

static enum svc_verdict check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	enum svc_verdict v = authorise(t, txn, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_idem_check(t, txn, a, rc);
	return v == SVC_VERDICT_OK ? t->write->kind->check(t, txn, a, rc) : v;
}

static void write_check(struct svc_task *t)
{
	const struct node_status *st = svc_node_status(t->svc, NULL);
	struct svc_write *w = t->write;
	struct svc_answer a = { 0 };
	struct store_txn *txn;
	struct err e = { 0 };
	int rc = 0;

	if (st->stopped[0] != '\0') {
		write_fail_stopped(t);
		return;
	}
	if (st->role != RAFT_LEADER || !node_is_leader(t->svc->shared->node)) {
		write_fail_not_leader(t);
		return;
	}
	w->term = st->term;
	if (st->term_start == 0 || svc_applied_index(t->svc) < st->term_start) {
		t->resume = on_term_applied;
		svc_task_wait_applied(t, st->term_start ? st->term_start : st->last_index + 1, SVC_TERM_WAIT_MS);
		return;
	}
	if (fsm_read(&t->svc->reader, &txn, &e) != 0) {
		write_fail(t, 503, "not_ready", "none", "the replica is being replaced; nothing was done, try again");
		return;
	}
	w->want_count = 0;
	w->unplaced[0] = '\0';
	switch (check(t, txn, &a, &rc)) {
	case SVC_VERDICT_OK: write_go_on(t); return;
	case SVC_VERDICT_ASK: write_judge(t); return;
	case SVC_VERDICT_HASH: write_hash(t); return;
	case SVC_VERDICT_REFUSED:
		if (w->is_confirmed && fsm_reader_index(&t->svc->reader) >= w->confirmed)
			answer_refused(t, &a);
		else
			write_confirm(t, &a);
		return;
	case SVC_VERDICT_FAILED: break;
	}
	if (rc == 0) {
		write_answer(t, &a);
		return;
	}
	buf_fini(&a.body);
	write_fail_store(t, rc);
}

/* ---- propose and what comes of it ---- */

static void answer_applied(struct svc_task *t)
{
	struct svc_answer a = { 0 };

	t->write->kind->answer(t, t->completion.index, &a);
	write_answer(t, &a);
}

/* Placements stand together behind the first commands of the write. An entry is refused whole. */
static const struct svc_want *refused_want(const struct svc_write *w, uint64_t command)
{
	uint64_t at = w->lead;

	for (size_t i = 0; i < w->want_count; i++) {
		if (w->wants[i].owners.count > 0 && at++ == command)
			return &w->wants[i];
	}
	return NULL;
}

/* Once the placer is asked again without that owner; after that whatever is refused is left to the sweep. */
static void retry_placement(struct svc_task *t, const struct svc_want *refused, int refusal)
{
	struct svc_write *w = t->write;
	uint32_t partition = refused->partition;

	if (refusal == FSM_PARTITION_ASSIGNED) {
		/* It has an owner: nothing is left to do for it. */
		w->left_out[partition] = true;
	} else {
		for (size_t i = 0; i < refused->owners.count; i++) {
			const struct str id = refused->owners.items[i];

			if (w->avoid_count < TOPIC_PARTITIONS_MAX && !str_is_among(id, w->avoid, w->avoid_count))
				w->avoid[w->avoid_count++] = id;
		}
		if (++w->place_tries > 1)
			w->left_out[partition] = true;
	}
	write_check(t);
}

/* The write was planned on a state that is past: on today's it may be good. */
static bool is_changed(int refusal)
{
	return refusal == FSM_TOPIC_CHANGED || refusal == FSM_PARENT_CHANGED || refusal == FSM_CHILD_CHANGED ||
	       refusal == FSM_SCHEMA_EXISTS || refusal == FSM_SCHEMA_GAP || refusal == FSM_MOVE_CHANGED ||
	       refusal == FSM_MOVE_IN_FLIGHT || refusal == FSM_NO_MOVE || refusal == FSM_REMOTE_SALT_RACE ||
	       refusal == FSM_REMOTE_CHANGED || refusal == FSM_REMOTE_CHILD_STALE;
}

static void refused_at_apply(struct svc_task *t)
{
	struct svc_write *w = t->write;
	int refusal = t->completion.code;
	const struct svc_want *want = refused_want(w, t->completion.detail);
	struct svc_answer a = { 0 };

	/* What is wrong with a placement is the owner, or that somebody was quicker; anything else is the topic. */
	if (want && refusal != FSM_TOPIC_NOT_FOUND && refusal != FSM_TOPIC_CHANGED) {
		retry_placement(t, want, refusal);
		return;
	}
	/* Under a key that came to an end meanwhile an answer is kept: the check finds it. */
	if ((is_changed(refusal) || refusal == FSM_IDEMPOTENT) && w->changed_tries++ == 0) {
		write_check(t);
		return;
	}
	svc_fail_refusal(&a, refusal, "", t->completion.index);
	write_answer(t, &a);
}

/* An older server registered between check and append. Planned anew, the write may fall back to older entries. */
static void held_back_at_append(struct svc_task *t)
{
	struct svc_answer a = { 0 };

	if (t->write->changed_tries++ == 0) {
		write_check(t);
		return;
	}
	svc_write_fail_held_back(t, t->write->max_type, &a);
	write_answer(t, &a);
}

static size_t count_owners(const struct svc_write *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->want_count; i++)
		n += w->wants[i].owners.count > 0;
	return n;
}

static void on_proposed(struct svc_task *t, enum svc_wake why)
{
	int code = t->completion.code;

	assert(why == SVC_WAKE_COMPLETED);
	(void)why;
	note_stage(t, SVC_STAGE_COMMIT);
	svc_control_placed(code == 0  ? SVC_INTENT_APPLIED
	                   : code > 0 ? SVC_INTENT_REFUSED
	                              : SVC_INTENT_DROPPED,
	                   count_owners(t->write));
	if (code == 0)
		answer_applied(t);
	else if (code > 0)
		refused_at_apply(t);
	else if (code == ERR_NOT_LEADER)
		write_fail_not_leader(t);
	else if (code == ERR_FULL)
		write_fail(t, 503, "overloaded", "none",
		           "too many writes wait on the leader; nothing was done, try again");
	else if (code == ERR_VERSION)
		held_back_at_append(t);
	else if (code == ERR_STOPPED)
		write_fail_stopped(t);
	else
		write_fail(t, 503, "outcome_unknown", "unknown",
		           "leadership was lost while the write was under way; look before you repeat it");
}

static void write_propose(struct svc_task *t)
{
	struct svc_write *w = t->write;
	struct entry_builder b;
	struct entry_header h = {
		.actor = t->rq.principal.anonymous ? STR_LIT("anonymous") : str_of(t->rq.principal.name),
		.origin = str_of(t->rq.origin),
	};
	struct node_proposal p = { .reply = svc_task_reply_to(t), .term = w->term };
	struct err e = { 0 };
	int rc;

	entry_builder_init(&b);
	w->kind->build(t, &b);
	svc_idem_plan(t, &h);
	p.max_type = w->max_type = h.has_idem && b.max_type < FSM_IDEM_TYPE ? FSM_IDEM_TYPE : b.max_type;
	rc = entry_builder_finish(&b, &h, &p.entry, &e);
	entry_builder_fini(&b);
	if (rc != 0) {
		/* A body of at most 1 MiB makes no entry of 2 MiB, and names were checked: this is a fault of this
		 * program. */
		log_error("svc.write", "op=%d code=%s error=\"%s\"", (int)t->rq.op, err_name(rc), e.msg);
		write_fail(t, 413, "too_large", "none", "the write does not fit into one log entry");
		return;
	}
	t->resume = on_proposed;
	if (!node_propose(t->svc->shared->node, &p)) {
		write_fail(t, 503, "overloaded", "none",
		           "too many writes wait on the leader; nothing was done, try again");
		return;
	}
	svc_task_wait_proposal(t);
}

/* ---- the beginning ---- */

static void on_name(struct svc_task *t, enum svc_wake why)
{
	if (why == SVC_WAKE_TIMEOUT) {
		write_fail(t, 503, "overloaded", "none",
		           "too many writes to this record wait for each other; nothing was done, try again");
		return;
	}
	write_check(t);
}

static const struct svc_write_kind *kind_of(enum svc_op op)
{
	switch (op) {
	case SVC_TOPIC_CREATE: return &svc_topic_create_kind;
	case SVC_TOPIC_ALTER: return &svc_topic_alter_kind;
	case SVC_TOPIC_DELETE: return &svc_topic_delete_kind;
	case SVC_CHILD_ATTACH: return &svc_child_attach_kind;
	case SVC_CHILD_DETACH: return &svc_child_detach_kind;
	case SVC_SCHEMA_PUT: return &svc_schema_put_kind;
	case SVC_MOVE_SET: return &svc_move_set_kind;
	case SVC_MOVE_PROGRESS: return &svc_move_progress_kind;
	case SVC_MOVE_COMPLETE: return &svc_move_complete_kind;
	case SVC_MOVE_ABORT: return &svc_move_abort_kind;
	case SVC_MOVE_ABORT_ALL: return &svc_move_abort_all_kind;
	case SVC_LEADER_SET: return &svc_leader_set_kind;
	case SVC_REPLICAS_SET: return &svc_replicas_set_kind;
	case SVC_MEMBER_REGISTER: return &svc_member_register_kind;
	case SVC_MEMBER_HEARTBEAT: return &svc_member_heartbeat_kind;
	case SVC_MEMBER_LEAVE: return &svc_member_leave_kind;
	case SVC_MEMBER_PATCH: return &svc_member_patch_kind;
	case SVC_MEMBER_LOST: return &svc_member_lost_kind;
	case SVC_MEMBER_DECOMMISSION: return &svc_member_decommission_kind;
	case SVC_MEMBER_RECOMMISSION: return &svc_member_recommission_kind;
	case SVC_SETTINGS_SET: return &svc_settings_kind;
	case SVC_CHILD_PAUSE: return &svc_child_pause_kind;
	case SVC_CHILD_RESUME: return &svc_child_resume_kind;
	case SVC_CHILD_SKIP: return &svc_child_skip_kind;
	case SVC_REMOTE_CREATE: return &svc_remote_create_kind;
	case SVC_REMOTE_ALTER: return &svc_remote_alter_kind;
	case SVC_REMOTE_DELETE: return &svc_remote_delete_kind;
	case SVC_REMOTE_REENCRYPT: return &svc_remote_reencrypt_kind;
	case SVC_USER_CREATE: return &svc_user_create_kind;
	case SVC_USER_DELETE: return &svc_user_delete_kind;
	case SVC_USER_GRANTS: return &svc_user_grants_kind;
	case SVC_USER_PASSWORD: return &svc_user_password_kind;
	case SVC_USER_SEED: return &svc_user_seed_kind;
	default: return NULL;
	}
}

bool svc_write_takes_key(enum svc_op op)
{
	return op != SVC_USER_SEED && kind_of(op) != NULL;
}

bool svc_write_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_new(s);
	struct svc_answer a = { 0 };

	if (!t)
		return false;
	t->rq = *rq;
	t->done = done;
	t->arg = arg;
	t->write = arena_zalloc(&t->arena, sizeof(*t->write));
	t->write->kind = kind_of(rq->op);
	t->write->began_ns = clock_mono_ns();
	assert(t->write->kind);
	if (svc_node_status(s, NULL)->stopped[0] != '\0') {
		write_fail_stopped(t);
		return true;
	}
	/* Elsewhere the body would be judged by another release than the leader's. */
	if (!node_is_leader(s->shared->node)) {
		write_fail_not_leader(t);
		return true;
	}
	if (!svc_idem_enter(t, &a) || (t->write->kind->parse && !t->write->kind->parse(t, &a))) {
		write_answer(t, &a);
		return true;
	}
	if (t->write->kind->takes_name) {
		t->resume = on_name;
		svc_task_wait_name(t, rq->user.len > 0 ? rq->user : rq->topic, SVC_NAME_WAIT_MS);
	} else {
		write_check(t);
	}
	return true;
}
