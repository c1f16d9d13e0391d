/* Reads of remotes. A password is shown to nobody: only who set it and when, and a keyed print of it. */
#include "service/remotes.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "fsm/changes.h"
#include "fsm/topics.h"

bool svc_remotes_allowed(const struct svc *s, struct svc_answer *a)
{
	if (s->shared->auth)
		return true;
	svc_fail(a, 403, "forbidden", NULL, "remotes require security: start the servers with --auth on");
	return false;
}

/* ---- one of them ---- */

static void field_time(struct json_writer *w, const char *name, int64_t ms)
{
	const time_t s = (time_t)(ms / 1000);
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm); /* fits while years have four digits */
	json_field_cstr(w, name, text);
}

void svc_put_remote_open(const struct remote *r, struct json_writer *w)
{
	char anchor[REMOTE_ANCHOR_SIZE];

	json_begin_object(w);
	json_field_str(w, "name", r->name);
	json_field_str(w, "id", r->id);
	json_field_str(w, "url", r->url);
	json_field_str(w, "username", r->username);
	json_key(w, "password");
	json_begin_object(w);
	json_field_str(w, "fingerprint", r->fingerprint);
	field_time(w, "set_at", r->password_set_at_ms);
	json_field_str(w, "set_by", r->password_set_by);
	json_field_str(w, "key_version", r->credential.kv);
	json_end_object(w);
	json_field_u64(w, "credential_version", r->credential_version);
	if (r->ca_pem.len > 0 && remote_trust_anchor(r->ca_pem, anchor))
		json_field_cstr(w, "ca_pem_sha512", anchor);
	json_key(w, "limits");
	const struct remote_limits limits = remote_limits_filled(&r->limits);

	record_write_json(&remote_limits_type, &limits, 0, w);
	json_field_u64(w, "revision", r->revision);
	field_time(w, "created_at", r->created_at_ms);
	json_field_str(w, "created_by", r->created_by);
}

static int by_text(const void *x, const void *y)
{
	return str_cmp(*(const struct str *)x, *(const struct str *)y);
}

static int link_of(struct store_txn *txn, struct str child, struct arena *arena, struct str *out)
{
	struct fsm_topic stored;
	struct topic stub = { .parent = { "", 0 } };
	int rc = fsm_get_topic(txn, child, &stored);

	if (rc == 0)
		rc = record_read_json(&topic_type, stored.record, arena, &stub, NULL, NULL);
	if (rc != 0)
		return rc == ERR_NOTFOUND ? ERR_CORRUPT : rc;
	char *text = arena_alloc(arena, stub.parent.len + 1 + child.len);

	memcpy(text, stub.parent.p, stub.parent.len);
	text[stub.parent.len] = '/';
	memcpy(text + stub.parent.len + 1, child.p, child.len);
	*out = (struct str){ text, stub.parent.len + 1 + child.len };
	return 0;
}

int svc_put_remote_links(struct store_txn *txn, struct str remote, struct arena *arena, struct json_writer *w)
{
	struct buf found = { 0 };
	struct str child = { "", 0 }, topic, link;
	int rc;

	while ((rc = fsm_next_of_remote(txn, remote, child, &child, &topic)) == 0 &&
	       (rc = link_of(txn, child, arena, &link)) == 0)
		buf_put(&found, &link, sizeof(link));
	if (rc == ERR_NOTFOUND) {
		struct str *links = (struct str *)(void *)found.data;
		const size_t n = found.len / sizeof(*links);

		rc = 0;
		if (n > 0)
			qsort(links, n, sizeof(*links), by_text);
		json_key(w, "links");
		json_begin_array(w);
		for (size_t i = 0; i < n; i++)
			json_put_str(w, links[i]);
		json_end_array(w);
	}
	buf_fini(&found);
	return rc;
}

static int put_remote(struct svc *s, struct store_txn *txn, struct str record, struct json_writer *w)
{
	struct remote r;
	int rc = record_read_json(&remote_type, record, &s->arena, &r, NULL, NULL);

	if (rc != 0)
		return rc;
	svc_put_remote_open(&r, w);
	rc = svc_put_remote_links(txn, r.name, &s->arena, w);
	json_end_object(w);
	return rc;
}

int svc_remote_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct str record;

	if (!svc_remotes_allowed(s, a))
		return 0;
	if (!rule_remote_name(rq->remote)) {
		svc_fail(a, 400, "bad_parameter", "name", "name: not a remote's name");
		return 0;
	}
	int rc = fsm_get_remote(txn, rq->remote, &record);

	if (rc == ERR_NOTFOUND) {
		svc_fail_refusal(a, FSM_REMOTE_NOT_FOUND, "", 0);
		return 0;
	}
	if (rc == 0)
		rc = put_remote(s, txn, record, &w);
	if (rc != 0)
		return rc;
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

/* The checks go out to the remote, which is the business of those that send there. */
int svc_remote_test(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct str record;
	int rc;

	if (!svc_remotes_allowed(s, a))
		return 0;
	rc = fsm_get_remote(txn, rq->remote, &record);
	if (rc == ERR_NOTFOUND)
		svc_fail_refusal(a, FSM_REMOTE_NOT_FOUND, "", 0);
	else if (rc == 0)
		svc_fail(a, 501, "not_supported", NULL,
		         "this daemon keeps remotes and never talks to them; test from a member that sends there");
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* ---- all of them ---- */

/* The key that seals now, once anything was sealed: how old it is tells when to rotate. */
static int put_key(struct svc *s, struct store_txn *txn, struct json_writer *w)
{
	const struct keyring_secrets *secrets = &s->shared->secrets;
	struct remote_keys keys;
	struct keyring ring;
	struct err e;
	int rc = fsm_get_remote_keys(txn, &s->arena, &keys);

	if (rc != 0 || keys.salt.len == 0 || !keyring_may_seal(secrets))
		return rc;
	rc = keyring_init(&ring, secrets, keys.salt, &e);
	if (rc != 0)
		return rc;
	const struct key_version *v = keys.versions.items;

	for (size_t i = 0; i < keys.versions.count; i++) {
		const int64_t age_ms = (int64_t)clock_wall_ms() - v[i].first_sealed_at_ms;

		if (!str_is(v[i].key, ring.current.version))
			continue;
		json_key(w, "key");
		json_begin_object(w);
		json_field_str(w, "key_version", v[i].key);
		field_time(w, "first_sealed_at", v[i].first_sealed_at_ms);
		json_field_i64(w, "age_seconds", age_ms > 0 ? age_ms / 1000 : 0);
		json_end_object(w);
	}
	keyring_wipe(&ring);
	return 0;
}

/* Narad's shape. What nodes hold of a remote is asked of those that send to it; this daemon does not. */
int svc_remote_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	static const enum fsm_domain domains[] = { FSM_DOMAIN_REMOTES, FSM_DOMAIN_TOPICS };
	struct json_writer w = { .out = &a->body };
	struct fsm_remote_iter it = { 0 };
	struct str name, record;
	int rc = 0;

	if (!svc_remotes_allowed(s, a) || svc_etag_list(txn, rq, domains, 2, a, &rc) || rc != 0)
		return rc;
	json_begin_object(&w);
	json_field_cstr(&w, "allowlist", "none");
	rc = put_key(s, txn, &w);
	json_key(&w, "remotes");
	json_begin_array(&w);
	if (rc == 0)
		rc = fsm_remote_iter_open(&it, txn);
	while (rc == 0 && (rc = fsm_remote_iter_next(&it, &name, &record)) == 0)
		rc = put_remote(s, txn, record, &w);
	fsm_remote_iter_close(&it);
	if (rc != ERR_NOTFOUND)
		return rc;
	json_end_array(&w);
	json_end_object(&w);
	svc_answer_json(a, 200);
	return 0;
}
