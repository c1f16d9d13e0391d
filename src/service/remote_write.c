/* The writes of remotes. The password of a request is sealed while the write is planned and stands nowhere else: the
 * entry, the log and the store have the ciphertext, bound to the very record that it was meant for. */
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "service/remotes.h"
#include "service/write.h"

struct svc_remote_write {
	char id[HEX64_SIZE];     /* create: minted once */
	char salt[KEYRING_SALT]; /* the same, for the case that it is the first remote */
	bool brings_salt;        /* this state has none */
	char print[KEYRING_PRINT_SIZE];
	struct remote record;          /* as it will be */
	struct sealed credential;      /* fresh; kv p NULL: none */
	struct cmd_sealed_tuple tuple; /* what it is bound to */
	struct cmd_remote_fields fields;
	uint64_t read_revision;
	int64_t at_ms;
	/* sealing all anew */
	struct cmd_remote_change *changes;
	size_t change_count;
	struct str report; /* the answer, in the arena */
};

static struct str actor_of(const struct svc_task *t)
{
	return str_of(t->rq.principal.name);
}

#define REMOTE_BODY_MAX (128 * 1024)

static bool read_body(struct svc_task *t, const struct record_type *type, void *out, struct svc_answer *a)
{
	if (!svc_remotes_allowed(t->svc, a))
		return false;
	if (t->rq.body.len <= REMOTE_BODY_MAX)
		return svc_write_read_body(t, type, out, a);
	svc_fail(a, 413, "too_large", NULL, "the body is over 128 KiB");
	return false;
}

/* Every server parses the bundle: what only looks like certificates is refused before a password is bound to it. */
static bool are_certificates(struct str pem, struct svc_answer *a)
{
	struct buf der = { 0 };
	bool ok = true;

	while (ok && pem_next_certificate(&pem, &der)) {
		const unsigned char *p = der.data;
		X509 *x = d2i_X509(NULL, &p, (long)der.len);

		ok = x && p == der.data + der.len;
		X509_free(x);
	}
	buf_fini(&der);
	if (!ok)
		svc_fail(a, 400, "bad_field", "ca_pem", "ca_pem: holds a block that is no certificate");
	return ok;
}

static struct svc_remote_write *begin(struct svc_task *t)
{
	t->write->remote = arena_zalloc(&t->arena, sizeof(*t->write->remote));
	return t->write->remote;
}

static struct str canonical(struct svc_task *t, struct str url)
{
	struct remote_url u;
	struct buf text = { 0 };

	if (!remote_url_parse(url, &u)) /* the body's rules let no such thing pass */
		return url;
	remote_url_put(&u, &text);
	const struct str out = { arena_dup(&t->arena, text.data, text.len), text.len };

	buf_fini(&text);
	return out;
}

/* ---- sealing ---- */

static enum svc_verdict load_ring(struct svc_task *t, struct store_txn *txn, struct keyring *ring, struct svc_answer *a,
                                  int *rc)
{
	struct svc_remote_write *r = t->write->remote;
	const struct keyring_secrets *secrets = &t->svc->shared->secrets;
	struct remote_keys keys;
	struct err e;

	if (!keyring_may_seal(secrets)) {
		svc_fail_write(a, 412, "no_secret", "none", 0,
		               "the leader has no cluster secret of at least %d bytes to seal with; give every server "
		               "one by --cluster-secret-file",
		               KEYRING_SECRET_MIN);
		return SVC_VERDICT_FAILED;
	}
	*rc = fsm_get_remote_keys(txn, &t->arena, &keys);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	r->brings_salt = keys.salt.len == 0;
	*rc = keyring_init(ring, secrets, r->brings_salt ? (struct str){ r->salt, sizeof(r->salt) } : keys.salt, &e);
	return *rc == 0 ? SVC_VERDICT_OK : SVC_VERDICT_FAILED;
}

static struct cmd_sealed_tuple tuple_of(struct svc_task *t, const struct remote *r)
{
	char anchor[REMOTE_ANCHOR_SIZE] = "";

	(void)remote_trust_anchor(r->ca_pem, anchor); /* of no bundle: then nothing opens, and apply refuses it */
	return (struct cmd_sealed_tuple){
		r->name, r->id, r->url, r->username, { arena_dup(&t->arena, anchor, strlen(anchor)), strlen(anchor) }
	};
}

static enum svc_verdict seal(struct svc_task *t, struct store_txn *txn, struct str password, struct svc_answer *a,
                             int *rc)
{
	struct svc_remote_write *r = t->write->remote;
	struct keyring ring;
	struct err e;
	enum svc_verdict v = load_ring(t, txn, &ring, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	r->tuple = tuple_of(t, &r->record);
	*rc = keyring_seal(&ring, &r->tuple, password, &t->arena, &r->credential, &e);
	keyring_print(&ring, r->record.id, password, r->print);
	keyring_wipe(&ring);
	r->record.credential = r->credential;
	r->record.fingerprint = str_of(r->print);
	return *rc == 0 ? SVC_VERDICT_OK : SVC_VERDICT_FAILED;
}

static void answer_remote(struct svc_task *t, int status, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	svc_put_remote_open(&t->write->remote->record, &w);
	json_end_object(&w);
	a->index = index;
	svc_answer_json(a, status);
}

/* ---- create ---- */

static bool create_parse(struct svc_task *t, struct svc_answer *a)
{
	struct remote_create *b = &t->write->body.remote_create;
	struct svc_remote_write *r = begin(t);
	struct record_fault fault = { 0 };
	struct err e = { 0 };
	uint64_t id;

	if (!read_body(t, &remote_create_type, b, a) ||
	    !svc_write_check_rules(rules_check_remote_create(b, &fault, &e), &fault, &e, a) ||
	    !are_certificates(b->ca_pem, a))
		return false;
	rand_secure(&id, sizeof(id));
	hex64(r->id, id);
	rand_secure(r->salt, sizeof(r->salt));
	return true;
}

static struct cmd_remote_create create_command(const struct svc_task *t)
{
	const struct svc_remote_write *r = t->write->remote;

	return (struct cmd_remote_create){
		.record = r->record,
		.salt = r->brings_salt ? (struct str){ r->salt, sizeof(r->salt) } : (struct str){ NULL, 0 },
		.sealed_at_ms = r->at_ms,
		.actor = actor_of(t),
		.request_id = str_of(t->rq.origin),
	};
}

static enum svc_verdict create_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct remote_create *b = &t->write->body.remote_create;
	static const struct remote_limits_patch nothing;
	struct svc_remote_write *r = t->write->remote;
	enum svc_verdict v = svc_write_needs(t, CMD_REMOTE_CREATE, a);

	if (v != SVC_VERDICT_OK)
		return v;
	r->at_ms = (int64_t)clock_wall_ms();
	r->record = (struct remote){
		.name = b->name,
		.id = str_of(r->id),
		.url = canonical(t, b->url),
		.username = b->username,
		.ca_pem = b->ca_pem,
		.limits = remote_limits_patched(&remote_limits_default, b->limits ? b->limits : &nothing),
		.credential_version = 1,
		.revision = 1,
		.password_set_at_ms = r->at_ms,
		.password_set_by = actor_of(t),
		.created_at_ms = r->at_ms,
		.created_by = actor_of(t),
	};
	v = seal(t, txn, b->password, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	const struct cmd_remote_create cmd = create_command(t);

	return svc_write_judge(t, txn, CMD_REMOTE_CREATE, &cmd, a, rc);
}

static void create_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_remote_create cmd = create_command(t);

	entry_builder_add(b, CMD_REMOTE_CREATE, &cmd);
}

static void create_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	answer_remote(t, 201, index, a);
}

const struct svc_write_kind svc_remote_create_kind = {
	.parse = create_parse,
	.check = create_check,
	.build = create_build,
	.answer = create_answer,
};

/* ---- change ---- */

static bool patch_parse(struct svc_task *t, struct svc_answer *a)
{
	struct remote_patch *b = &t->write->body.remote_patch;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	(void)begin(t);
	return read_body(t, &remote_patch_type, b, a) &&
	       svc_write_check_rules(rules_check_remote_patch(b, &fault, &e), &fault, &e, a) &&
	       are_certificates(b->ca_pem, a);
}

static enum svc_verdict load_remote(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct str record;
	int r = fsm_get_remote(txn, t->rq.remote, &record);

	if (r == ERR_NOTFOUND)
		return svc_write_refuse(t, FSM_REMOTE_NOT_FOUND, "", a);
	if (r == 0) {
		const struct str copy = arena_str(&t->arena, record);

		r = record_read_json(&remote_type, copy, &t->arena, &t->write->remote->record, NULL, NULL);
	}
	*rc = r;
	return r == 0 ? SVC_VERDICT_OK : SVC_VERDICT_FAILED;
}

static void set_fields(struct svc_task *t)
{
	const struct remote_patch *b = &t->write->body.remote_patch;
	struct svc_remote_write *r = t->write->remote;

	r->fields = (struct cmd_remote_fields){ .username = b->username, .ca_pem = b->ca_pem, .limits = b->limits };
	if (b->url.p)
		r->record.url = r->fields.url = canonical(t, b->url);
	if (b->username.p)
		r->record.username = b->username;
	if (b->ca_pem.p)
		r->record.ca_pem = b->ca_pem;
	if (b->limits)
		r->record.limits = remote_limits_patched(&r->record.limits, b->limits);
	r->record.revision = r->read_revision + 1;
}

static struct cmd_remote_change change_command(const struct svc_task *t)
{
	const struct svc_remote_write *r = t->write->remote;
	const bool sealed = r->credential.kv.p != NULL;

	return (struct cmd_remote_change){
		.name = r->record.name,
		.fields = r->fields,
		.credential = sealed ? &r->credential : NULL,
		.fingerprint = sealed ? str_of(r->print) : (struct str){ NULL, 0 },
		.sealed_against = sealed ? &r->tuple : NULL,
		.read_revision = r->read_revision,
		.sealed_at_ms = r->at_ms,
		.actor = actor_of(t),
		.request_id = str_of(t->rq.origin),
	};
}

static enum svc_verdict patch_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct remote_patch *b = &t->write->body.remote_patch;
	struct svc_remote_write *r = t->write->remote;
	enum svc_verdict v = svc_write_needs(t, CMD_REMOTE_CHANGE, a);

	if (v == SVC_VERDICT_OK)
		v = load_remote(t, txn, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	r->at_ms = (int64_t)clock_wall_ms();
	r->read_revision = r->record.revision;
	set_fields(t);
	if (b->password.p) {
		v = seal(t, txn, b->password, a, rc);
		r->record.credential_version++;
		r->record.password_set_at_ms = r->at_ms;
		r->record.password_set_by = actor_of(t);
	}
	if (v != SVC_VERDICT_OK)
		return v;
	const struct cmd_remote_change cmd = change_command(t);

	return svc_write_judge(t, txn, CMD_REMOTE_CHANGE, &cmd, a, rc);
}

static void patch_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_remote_change cmd = change_command(t);

	entry_builder_add(b, CMD_REMOTE_CHANGE, &cmd);
}

static void patch_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	answer_remote(t, 200, index, a);
}

const struct svc_write_kind svc_remote_alter_kind = {
	.parse = patch_parse,
	.check = patch_check,
	.build = patch_build,
	.answer = patch_answer,
};

/* ---- delete ---- */

static bool delete_parse(struct svc_task *t, struct svc_answer *a)
{
	if (!svc_remotes_allowed(t->svc, a))
		return false;
	if (rule_remote_name(t->rq.remote))
		return true;
	svc_fail(a, 400, "bad_parameter", "name", "name: not a remote's name");
	return false;
}

static struct cmd_remote_delete delete_command(const struct svc_task *t)
{
	return (struct cmd_remote_delete){ t->rq.remote, t->rq.force, actor_of(t), str_of(t->rq.origin) };
}

static enum svc_verdict delete_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	const struct cmd_remote_delete cmd = delete_command(t);
	enum svc_verdict v = svc_write_needs(t, CMD_REMOTE_DELETE, a);
	struct json_writer w;

	if (v == SVC_VERDICT_OK)
		v = svc_write_judge(t, txn, CMD_REMOTE_DELETE, &cmd, a, rc);
	if (v != SVC_VERDICT_REFUSED || strcmp(a->code, "remote_in_use") != 0)
		return v;
	svc_fail_open(a, &w);
	*rc = svc_put_remote_links(txn, t->rq.remote, &t->arena, &w);
	svc_fail_close(a, &w);
	return *rc == 0 ? v : SVC_VERDICT_FAILED;
}

static void delete_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_remote_delete cmd = delete_command(t);

	entry_builder_add(b, CMD_REMOTE_DELETE, &cmd);
}

const struct svc_write_kind svc_remote_delete_kind = {
	.uses_reserve = true,
	.parse = delete_parse,
	.check = delete_check,
	.build = delete_build,
	.answer = svc_write_answer_nothing,
};

/* ---- sealing all anew, after a rotation of the secret ---- */

struct reseal {
	struct svc_task *t;
	struct keyring ring;
	struct buf done, current, failed; /* members of three arrays */
	struct json_writer dw, cw, fw;
};

static void note_failed(struct reseal *x, struct str name, const char *why)
{
	json_begin_object(&x->fw);
	json_field_str(&x->fw, "name", name);
	json_field_cstr(&x->fw, "reason", why);
	json_end_object(&x->fw);
}

static int reseal_one(struct reseal *x, const struct remote *r)
{
	struct svc_remote_write *w = x->t->write->remote;
	struct cmd_sealed_tuple *tuple = arena_alloc(&x->t->arena, sizeof(*tuple));
	struct sealed *fresh = arena_alloc(&x->t->arena, sizeof(*fresh));
	char password[PASSWORD_MAX], *print = arena_alloc(&x->t->arena, KEYRING_PRINT_SIZE);
	struct err e;
	size_t len;

	if (str_is(r->credential.kv, x->ring.current.version)) {
		json_put_str(&x->cw, r->name);
		return 0;
	}
	*tuple = tuple_of(x->t, r);
	int rc = keyring_open(&x->ring, tuple, &r->credential, password, &len, &e);

	if (rc != 0) {
		note_failed(x, r->name, rc == ERR_NOTFOUND ? "key_unknown" : "open_failed");
		return 0;
	}
	rc = keyring_seal(&x->ring, tuple, (struct str){ password, len }, &x->t->arena, fresh, &e);
	keyring_print(&x->ring, r->id, (struct str){ password, len }, print);
	explicit_bzero(password, sizeof(password));
	if (rc != 0)
		return rc;
	w->changes[w->change_count++] = (struct cmd_remote_change){
		.name = r->name,
		.credential = fresh,
		.fingerprint = str_of(print),
		.sealed_against = tuple,
		.read_revision = r->revision,
		.expect_credential_version = { .value = r->credential_version, .set = true },
		.reseal = true,
		.sealed_at_ms = w->at_ms,
		.actor = actor_of(x->t),
		.request_id = str_of(x->t->rq.origin),
	};
	json_put_str(&x->dw, r->name);
	return 0;
}

static int reseal_all(struct reseal *x, struct store_txn *txn)
{
	struct fsm_remote_iter it = { 0 };
	struct str name, record;
	int rc = fsm_remote_iter_open(&it, txn);

	while (rc == 0 && (rc = fsm_remote_iter_next(&it, &name, &record)) == 0) {
		const struct str copy = arena_str(&x->t->arena, record);
		struct remote r;

		rc = record_read_json(&remote_type, copy, &x->t->arena, &r, NULL, NULL);
		if (rc == 0)
			rc = reseal_one(x, &r);
	}
	fsm_remote_iter_close(&it);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static void put_array(struct buf *out, const char *name, const struct buf *items)
{
	buf_printf(out, ",\"%s\":[", name);
	buf_put(out, items->data, items->len);
	buf_putc(out, ']');
}

static void keep_report(struct reseal *x)
{
	struct svc_remote_write *w = x->t->write->remote;
	struct buf out = { 0 };

	buf_printf(&out, "{\"key_version\":\"%s\"", x->ring.current.version);
	put_array(&out, "reencrypted", &x->done);
	put_array(&out, "already_current", &x->current);
	put_array(&out, "failed", &x->failed);
	buf_putc(&out, '}');
	w->report = (struct str){ arena_dup(&x->t->arena, out.data, out.len), out.len };
	buf_fini(&out);
}

static bool reencrypt_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_remote_write *w = begin(t);
	struct json_reader r;

	if (!svc_remotes_allowed(t->svc, a))
		return false;
	w->changes = arena_alloc(&t->arena, REMOTES_MAX * sizeof(*w->changes));
	rand_secure(w->salt, sizeof(w->salt));
	json_reader_init(&r, t->rq.body, 0);
	if (t->rq.body.len == 0)
		return true;

	const enum json_event begin = json_next(&r);
	const enum json_event end = json_next(&r);
	const enum json_event after = json_next(&r);

	if (begin == JSON_OBJECT && end == JSON_OBJECT_END && after == JSON_END)
		return true;
	svc_fail(a, 400, "bad_json", NULL, "the body is empty or {}");
	return false;
}

static void reencrypt_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	const struct str report = t->write->remote->report;

	buf_put(&a->body, report.p, report.len);
	a->index = index;
	svc_answer_json(a, 200);
}

static enum svc_verdict reencrypt_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_remote_write *w = t->write->remote;
	struct reseal x = { .t = t };
	enum svc_verdict v = svc_write_needs(t, CMD_REMOTE_CHANGE, a);

	if (v == SVC_VERDICT_OK)
		v = load_ring(t, txn, &x.ring, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	x.dw.out = &x.done;
	x.cw.out = &x.current;
	x.fw.out = &x.failed;
	w->at_ms = (int64_t)clock_wall_ms();
	w->change_count = 0;
	*rc = reseal_all(&x, txn);
	if (*rc == 0)
		keep_report(&x);
	keyring_wipe(&x.ring);
	buf_fini(&x.done);
	buf_fini(&x.current);
	buf_fini(&x.failed);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	for (size_t i = 0; i < w->change_count; i++) {
		v = svc_write_judge(t, txn, CMD_REMOTE_CHANGE, &w->changes[i], a, rc);
		if (v != SVC_VERDICT_OK)
			return v;
	}
	if (w->change_count > 0)
		return SVC_VERDICT_OK;
	reencrypt_answer(t, fsm_reader_index(&t->svc->reader), a);
	return SVC_VERDICT_REFUSED; /* nothing is to be done */
}

static void reencrypt_build(struct svc_task *t, struct entry_builder *b)
{
	const struct svc_remote_write *w = t->write->remote;

	for (size_t i = 0; i < w->change_count; i++)
		entry_builder_add(b, CMD_REMOTE_CHANGE, &w->changes[i]);
}

const struct svc_write_kind svc_remote_reencrypt_kind = {
	.parse = reencrypt_parse,
	.check = reencrypt_check,
	.build = reencrypt_build,
	.answer = reencrypt_answer,
};
