/* The writes of users. Passwords are hashed on the work pool between two checks: the first keeps the pool from working
 * for those who may not, the second is of the state that the entry is made for. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fsm/changes.h"
#include "fsm/users.h"
#include "service/write.h"

/* ---- bcrypt's part ---- */

/* Held by the task and by the pool. */
struct svc_hash_job {
	struct bcrypt_job job;
	_Atomic uint32_t refs;
	struct svc_task *task;
};

static void job_unref(struct svc_hash_job *j)
{
	if (!j || atomic_fetch_sub(&j->refs, 1) > 1)
		return;
	bcrypt_job_wipe(&j->job);
	mem_free(j);
}

void svc_hash_drop(struct svc_task *t)
{
	job_unref(t->write->hash.job);
	t->write->hash.job = NULL;
}

/* On a pool thread. */
static void on_computed(struct bcrypt_job *job)
{
	struct svc_hash_job *j = CONTAINER_OF(job, struct svc_hash_job, job);

	svc_task_complete(j->task, 0);
	job_unref(j);
}

bool svc_hash_begin(struct svc_task *t)
{
	struct svc_hash *h = &t->write->hash;
	struct svc_hash_job *j = mem_zalloc(sizeof(*j));

	atomic_init(&j->refs, 2);
	j->task = t;
	h->job = j;
	/* Of a stored hash that is none the answer is known. */
	const bool ok = bcrypt_job_init(&j->job, h->password, h->against);

	j->job.done = on_computed;
	svc_task_expect(t);
	if (!ok) {
		on_computed(&j->job);
		return true;
	}
	if (bcrypt_submit(&t->svc->shared->bcrypt, &j->job))
		return true;
	t->owed = false;
	atomic_store(&j->refs, 1);
	return false;
}

void svc_hash_take(struct svc_task *t)
{
	struct svc_hash *h = &t->write->hash;
	const struct bcrypt_job *j = &h->job->job;

	if (h->against.p) {
		h->tried = fsm_hash(h->against);
		h->matched = j->ok;
	} else if (j->ok) {
		memcpy(h->made, j->hash, sizeof(h->made));
	}
	svc_hash_drop(t);
}

static enum svc_verdict make_hash(struct svc_write *w, struct str password)
{
	if (w->hash.made[0] != '\0')
		return SVC_VERDICT_OK;
	w->hash.password = password;
	w->hash.against = (struct str){ NULL, 0 };
	return SVC_VERDICT_HASH;
}

/* ---- what the writes share ---- */

static enum svc_verdict forbid(struct svc_task *t, const char *why, struct svc_answer *a)
{
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader), "%s", why);
	return SVC_VERDICT_REFUSED;
}

static bool is_self(const struct svc_task *t)
{
	return !t->rq.principal.anonymous && str_is(t->rq.user, t->rq.principal.name);
}

/* An admin gives what it likes but the power to give. */
static enum svc_verdict may_delegate(struct svc_task *t, const struct record_list *grants, struct svc_answer *a)
{
	const struct grant *g = grants->items;

	for (size_t i = 0; i < grants->count; i++) {
		if (str_is(g[i].action, "admin") && !t->write->rights->user.root)
			return forbid(t, "only the root user may grant admin", a);
	}
	return SVC_VERDICT_OK;
}

/* The stored record; its texts in the arena. */
static enum svc_verdict load_user(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct str record;
	int r = fsm_get_user(txn, t->rq.user, &record);

	if (r == ERR_NOTFOUND)
		return svc_write_refuse(t, FSM_USER_NOT_FOUND, "", a);
	if (r == 0) {
		const struct str copy = arena_str(&t->arena, record);

		r = record_read_json(&user_type, copy, &t->arena, &t->write->user, NULL, NULL);
	}
	if (r == 0)
		return SVC_VERDICT_OK;
	*rc = r;
	return SVC_VERDICT_FAILED;
}

static void answer_user(struct svc_task *t, int status, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	record_write_json(&user_type, &t->write->user, RECORD_PUBLIC, &w);
	a->index = index;
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, status);
}

/* ---- create ---- */

static bool create_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct user_create *b = &w->body.user_create;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	if (!svc_write_read_body(t, &user_create_type, b, a) ||
	    !svc_write_check_rules(rules_check_user_create(b, &fault, &e), &fault, &e, a))
		return false;
	w->user = (struct user){
		.username = b->username,
		.grants = b->grants,
		.created_at_ms = (int64_t)clock_wall_ms(),
	};
	w->user.updated_at_ms = w->user.created_at_ms;
	return true;
}

static enum svc_verdict create_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = may_delegate(t, &w->user.grants, a);

	if (v == SVC_VERDICT_OK)
		v = svc_write_judge(t, txn, CMD_USER_CREATE, &w->user, a, rc);
	if (v == SVC_VERDICT_OK)
		v = make_hash(w, w->body.user_create.password);
	w->user.password_hash = str_of(w->hash.made);
	return v;
}

static void create_build(struct svc_task *t, struct entry_builder *b)
{
	entry_builder_add(b, CMD_USER_CREATE, &t->write->user);
}

static void create_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	answer_user(t, 201, index, a);
}

const struct svc_write_kind svc_user_create_kind = {
	.parse = create_parse,
	.check = create_check,
	.build = create_build,
	.answer = create_answer,
};

/* ---- delete ---- */

/* The type that releases the user's topics, unless a member does not know it yet: then they keep the name. */
static enum command_type delete_type(struct svc_task *t)
{
	return svc_write_may_use(t, CMD_USER_DELETE_RELEASE) ? CMD_USER_DELETE_RELEASE : CMD_USER_DELETE;
}

static enum svc_verdict delete_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct cmd_name cmd = { t->rq.user };
	enum svc_verdict v;

	w->delete_type = delete_type(t);
	v = svc_write_judge(t, txn, w->delete_type, &cmd, a, rc);
	if (v == SVC_VERDICT_OK && is_self(t))
		return forbid(t, "a user does not delete its own account", a);
	return v;
}

static void delete_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_name cmd = { t->rq.user };

	entry_builder_add(b, t->write->delete_type, &cmd);
}

#define TOPICS_SHOWN 20

/* Whoever is made under that name next would own them. */
static void warn_kept(struct svc_task *t)
{
	struct fsm_reader *reader = &t->svc->reader;
	struct str after = { "", 0 }, name;
	struct buf list = { 0 };
	struct store_txn *txn;
	size_t count = 0;
	struct err e;

	if (fsm_read(reader, &txn, &e) != 0)
		return;
	while (fsm_next_of_user(txn, t->rq.user, after, &name) == 0) {
		if (count++ < TOPICS_SHOWN)
			buf_printf(&list, "%s" STR_FMT, list.len ? "," : "", STR_ARG(name));
		after = arena_str(&t->arena, name);
	}
	const struct node_blocker *by = node_held_back_by(svc_node_status(t->svc, NULL), CMD_USER_DELETE_RELEASE);

	if (count > 0)
		log_warn("audit.topics_kept",
		         "msg=\"user deleted, but its topics still name it as owner\" user=" STR_FMT
		         " topics=%s count=%zu held_back_by=%s",
		         STR_ARG(t->rq.user), buf_cstr(&list), count, by ? by->id : "-");
	buf_fini(&list);
}

static void delete_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	if (t->write->delete_type == CMD_USER_DELETE)
		warn_kept(t);
	svc_write_answer_nothing(t, index, a);
}

const struct svc_write_kind svc_user_delete_kind = {
	.takes_name = true,
	.uses_reserve = true,
	.check = delete_check,
	.build = delete_build,
	.answer = delete_answer,
};

/* ---- grants ---- */

static bool grants_parse(struct svc_task *t, struct svc_answer *a)
{
	struct user_grants *b = &t->write->body.user_grants;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	return svc_write_read_body(t, &user_grants_type, b, a) &&
	       svc_write_check_rules(rules_check_grants(&b->grants, &fault, &e), &fault, &e, a);
}

static struct cmd_user_grants grants_command(const struct svc_task *t)
{
	const struct svc_write *w = t->write;

	return (struct cmd_user_grants){ t->rq.user, w->body.user_grants.grants, w->user.updated_at_ms };
}

static enum svc_verdict grants_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = load_user(t, txn, a, rc);
	struct cmd_user_grants cmd;

	if (v != SVC_VERDICT_OK)
		return v;
	w->user.updated_at_ms = (int64_t)clock_wall_ms();
	w->user.grants = w->body.user_grants.grants;
	cmd = grants_command(t);
	v = svc_write_judge(t, txn, CMD_USER_GRANTS, &cmd, a, rc);
	if (v == SVC_VERDICT_OK && is_self(t))
		return forbid(t, "a user does not change its own grants", a);
	return v == SVC_VERDICT_OK ? may_delegate(t, &w->user.grants, a) : v;
}

static void grants_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_user_grants cmd = grants_command(t);

	entry_builder_add(b, CMD_USER_GRANTS, &cmd);
}

static void grants_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	answer_user(t, 200, index, a);
}

const struct svc_write_kind svc_user_grants_kind = {
	.takes_name = true,
	.parse = grants_parse,
	.check = grants_check,
	.build = grants_build,
	.answer = grants_answer,
};

/* ---- password ---- */

static bool password_parse(struct svc_task *t, struct svc_answer *a)
{
	struct user_password *b = &t->write->body.user_password;

	if (!svc_write_read_body(t, &user_password_type, b, a))
		return false;
	if (rule_password(b->new_password))
		return true;
	svc_fail(a, 400, "bad_field", "new_password", "new_password: must be 1 to %d bytes", PASSWORD_MAX);
	return false;
}

/* Who is no admin says the old one too: a session left open is not enough to take an account over. */
static enum svc_verdict knows_current(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	const struct str current = w->body.user_password.current_password;

	if (!rule_password(current))
		return forbid(t, "current_password is missing or wrong", a);
	if (w->hash.tried != fsm_hash(w->user.password_hash)) {
		w->hash.password = current;
		w->hash.against = w->user.password_hash;
		return SVC_VERDICT_HASH;
	}
	return w->hash.matched ? SVC_VERDICT_OK : forbid(t, "current_password is missing or wrong", a);
}

static struct cmd_user_password password_command(const struct svc_task *t)
{
	const struct svc_write *w = t->write;

	return (struct cmd_user_password){ t->rq.user, str_of(w->hash.made), w->user.updated_at_ms };
}

static enum svc_verdict password_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct cmd_user_password cmd;
	enum svc_verdict v;

	if (!is_self(t) && !w->rights->is_admin)
		return forbid(t, "only an admin may set another user's password", a);
	v = load_user(t, txn, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	if (w->user.root && !w->rights->user.root)
		return svc_write_refuse(t, FSM_ROOT_PROTECTED, "", a);
	if (!w->rights->is_admin)
		v = knows_current(t, a);
	if (v != SVC_VERDICT_OK)
		return v;
	w->user.updated_at_ms = (int64_t)clock_wall_ms();
	cmd = password_command(t);
	v = svc_write_judge(t, txn, CMD_USER_PASSWORD, &cmd, a, rc);
	return v == SVC_VERDICT_OK ? make_hash(w, w->body.user_password.new_password) : v;
}

static void password_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_user_password cmd = password_command(t);

	entry_builder_add(b, CMD_USER_PASSWORD, &cmd);
}

const struct svc_write_kind svc_user_password_kind = {
	.takes_name = true,
	.parse = password_parse,
	.check = password_check,
	.build = password_build,
	.answer = svc_write_answer_nothing,
};

/* ---- the root user ---- */

static bool seed_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;

	(void)a;
	w->user =
	    (struct user){ .username = STR_LIT(ROOT_USER), .root = true, .created_at_ms = (int64_t)clock_wall_ms() };
	w->user.updated_at_ms = w->user.created_at_ms;
	return true;
}

static enum svc_verdict seed_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct fsm_user_iter it = { 0 };
	struct str name, record;
	enum svc_verdict v;
	int r = fsm_user_iter_open(&it, txn);

	if (r == 0)
		r = fsm_user_iter_next(&it, &name, &record);
	fsm_user_iter_close(&it);
	if (r == 0)
		return svc_write_refuse(t, FSM_USER_EXISTS, "", a);
	if (r != ERR_NOTFOUND) {
		*rc = r;
		return SVC_VERDICT_FAILED;
	}
	v = svc_write_judge(t, txn, CMD_USER_SEED_ROOT, &w->user, a, rc);
	if (v == SVC_VERDICT_OK)
		v = make_hash(w, t->rq.body);
	w->user.password_hash = str_of(w->hash.made);
	return v;
}

static void seed_build(struct svc_task *t, struct entry_builder *b)
{
	entry_builder_add(b, CMD_USER_SEED_ROOT, &t->write->user);
}

const struct svc_write_kind svc_user_seed_kind = {
	.parse = seed_parse,
	.check = seed_check,
	.build = seed_build,
	.answer = create_answer,
};
