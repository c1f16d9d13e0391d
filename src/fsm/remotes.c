/* Remotes: types 35, 36, 37; and the index of the children that go to each.
 *
 * A password stands in the log as ciphertext, and a key is good for so many ciphertexts: each one is counted under the
 * key that made it, whatever becomes of its entry. So types 35 and 36 are the only ones that leave something behind
 * when they are refused. What is counted then is the seals alone, in a transaction of their own behind the refused one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fsm/fsm_internal.h"
#include "fsm/remotes.h"
#include "model/remotes.h"

static const struct str nothing = { "", 0 };

/* ---- the keys' row ---- */

static int load_keys(struct apply *a, struct remote_keys *out)
{
	int rc = fsm_get_remote_keys(a->txn, a->arena, out);
	return rc == ERR_CORRUPT ? fsm_corrupt(a, STORE_REMOTES, STR_LIT(REMOTE_KEYS_KEY), "not a row of keys") : rc;
}

static int store_keys(struct apply *a, const struct remote_keys *keys)
{
	return fsm_put_record(a, STORE_REMOTES, STR_LIT(REMOTE_KEYS_KEY), &remote_keys_type, keys, 0);
}

/* One seal more under `kv`; answers how many there were before. */
static uint64_t count_seal(struct apply *a, struct remote_keys *keys, struct str kv, int64_t at_ms)
{
	const struct key_version *old = keys->versions.items;
	const size_t n = keys->versions.count;
	struct key_version *all = arena_alloc(a->arena, (n + 1) * sizeof(*all));
	size_t at = 0;
	while (at < n && str_cmp(old[at].key, kv) < 0)
		at++;
	const bool known = at < n && str_eq(old[at].key, kv);
	if (at)
		memcpy(all, old, at * sizeof(*all));
	all[at] = known ? old[at] : (struct key_version){ .key = kv, .first_sealed_at_ms = at_ms };
	if (n > at + known)
		memcpy(all + at + 1, old + at + known, (n - at - known) * sizeof(*all));
	keys->versions = (struct record_list){ all, n + !known };
	return all[at].seals++;
}

/* Counts it now, and remembers it for the case that the entry is refused. */
static int note_seal(struct apply *a, struct str kv, int64_t at_ms, struct remote_keys *keys, uint64_t *before)
{
	int rc = load_keys(a, keys);
	if (rc)
		return rc;
	*before = count_seal(a, keys, kv, at_ms);
	if (is_judging(a))
		return 0;
	struct seal **end = &a->seals;
	while (*end)
		end = &(*end)->next;
	*end = arena_alloc(a->arena, sizeof(**end));
	**end = (struct seal){ NULL, kv, at_ms };
	return 0;
}

int remote_count_refused(struct apply *a)
{
	struct remote_keys keys;
	if (!a->seals)
		return 0;
	int rc = store_begin_child(a->txn);
	if (rc)
		return rc;
	rc = load_keys(a, &keys);
	for (const struct seal *s = a->seals; rc == 0 && s; s = s->next)
		(void)count_seal(a, &keys, s->kv, s->at_ms);
	if (rc == 0)
		rc = store_keys(a, &keys);
	return rc ? rc : store_commit_child(a->txn);
}

/* ---- the index of children by remote ---- */

int remote_index_stub(struct apply *a, struct str name, const struct remote_link *was, const struct remote_link *is)
{
	uint8_t key[STORE_KEY_MAX];
	int rc = 0;
	if (was && is && str_eq(was->name, is->name) && str_eq(was->topic, is->topic))
		return 0;
	if (was)
		rc = fsm_del(a, STORE_X_BY_REMOTE, key_pair(key, was->name, name));
	if (rc == 0 && is)
		rc = fsm_put(a, STORE_X_BY_REMOTE, key_pair(key, is->name, name), is->topic, 0);
	return rc;
}

/* ---- 35: create ---- */

static int load(struct apply *a, struct str name, struct remote *out)
{
	struct str v;
	int rc = fsm_get_remote(a->txn, name, &v);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_REMOTE_NOT_FOUND : rc;
	return fsm_get_record(a, STORE_REMOTES, name, &remote_type, out);
}

/* One cluster has one salt: the first create brings it, and who made another meanwhile sealed under another key. */
static bool is_salt_lost(const struct remote_keys *keys, struct str sent)
{
	if (keys->salt.len == 0)
		return sent.len == 0;
	return sent.len && !str_eq(keys->salt, sent);
}

static int judge_create(struct apply *a, const struct cmd_remote_create *c, const struct remote_keys *keys,
                        uint64_t seals)
{
	struct str v;
	uint64_t rows, reserved = 0;
	if (is_salt_lost(keys, c->salt))
		return FSM_REMOTE_SALT_RACE;
	if (seals >= SEALS_MAX)
		return FSM_REMOTE_KEY_EXHAUSTED;
	int rc = fsm_get_remote(a->txn, c->record.name, &v);
	if (rc != ERR_NOTFOUND)
		return rc ? rc : FSM_REMOTE_EXISTS;
	rc = store_count(a->txn, STORE_REMOTES, &rows);
	if (rc == 0) {
		rc = store_get(a->txn, STORE_REMOTES, STR_LIT(REMOTE_KEYS_KEY), &v);
		reserved = rc == 0;
	}
	if (rc && rc != ERR_NOTFOUND)
		return rc;
	return rows - reserved >= REMOTES_MAX ? FSM_REMOTE_LIMIT : 0;
}

int fsm_remote_create(struct apply *a, const void *command)
{
	const struct cmd_remote_create *c = command;
	struct remote now = c->record;
	struct remote_keys keys;
	uint64_t seals;
	if (!rule_remote_name(now.name) || now.id.len == 0 || !sealed_is_formed(&now.credential))
		return FSM_INVALID;
	int rc = note_seal(a, now.credential.kv, c->sealed_at_ms, &keys, &seals);
	if (rc == 0)
		rc = judge_create(a, c, &keys, seals);
	if (rc || is_judging(a))
		return rc;
	if (keys.salt.len == 0)
		keys.salt = c->salt;
	now.credential_version = now.revision = 1;
	now.password_set_at_ms = now.created_at_ms = c->sealed_at_ms;
	now.password_set_by = now.created_by = c->actor;
	rc = store_keys(a, &keys);
	return rc ? rc : fsm_put_record(a, STORE_REMOTES, now.name, &remote_type, &now, 0);
}

/* ---- 36: change ---- */

static int refuse_changed(struct apply *a, const struct remote *r)
{
	char revision[24];
	const int n = snprintf(revision, sizeof(revision), "%" PRIu64, r->revision);
	fsm_set_hint(a, (struct str){ revision, (size_t)n });
	return FSM_REMOTE_CHANGED;
}

static int set_fields(const struct cmd_remote_fields *f, struct remote *r)
{
	if (f->url.p)
		r->url = f->url;
	if (f->username.p)
		r->username = f->username;
	if (f->ca_pem.p)
		r->ca_pem = f->ca_pem;
	if (!f->limits)
		return 0;
	if (rules_check_remote_limits(f->limits, NULL, NULL) != 0)
		return FSM_INVALID;
	r->limits = remote_limits_patched(&r->limits, f->limits);
	return 0;
}

/* A ciphertext opens for the very record it was made for and for no other. */
static bool is_sealed_against(const struct cmd_sealed_tuple *t, const struct remote *r)
{
	char anchor[REMOTE_ANCHOR_SIZE];
	return remote_trust_anchor(r->ca_pem, anchor) && str_eq(t->name, r->name) && str_eq(t->id, r->id) &&
	       str_eq(t->url, r->url) && str_eq(t->username, r->username) && str_is(t->trust_anchor, anchor);
}

static int judge_change(struct apply *a, const struct cmd_remote_change *c, const struct remote *old,
                        const struct remote *now, uint64_t seals)
{
	const bool elsewhere =
	    !str_eq(now->url, old->url) || !str_eq(now->username, old->username) || !str_eq(now->ca_pem, old->ca_pem);
	if (!c->credential && !elsewhere && !c->fields.limits)
		return FSM_INVALID;
	/* A stored password goes only where it was meant to go when it was entered. */
	if (!c->credential && elsewhere)
		return refuse_changed(a, old);
	if (c->expect_credential_version.set && c->expect_credential_version.value != old->credential_version)
		return refuse_changed(a, old);
	if (!c->credential)
		return 0;
	if (!is_sealed_against(c->sealed_against, now))
		return refuse_changed(a, old);
	return seals >= SEALS_MAX ? FSM_REMOTE_KEY_EXHAUSTED : 0;
}

static int put_changed(struct apply *a, const struct cmd_remote_change *c, const struct remote *old, struct remote *now)
{
	now->revision = old->revision + 1;
	if (c->credential) {
		now->credential = *c->credential;
		now->credential_version = old->credential_version + 1;
		now->fingerprint = c->fingerprint;
	}
	if (c->credential && !c->reseal) {
		now->password_set_at_ms = c->sealed_at_ms;
		now->password_set_by = c->actor;
	}
	return fsm_put_record(a, STORE_REMOTES, now->name, &remote_type, now, 0);
}

int fsm_remote_change(struct apply *a, const void *command)
{
	const struct cmd_remote_change *c = command;
	struct remote old, now;
	struct remote_keys keys;
	uint64_t seals = 0;
	int rc = 0;
	if (c->credential && (!sealed_is_formed(c->credential) || !c->sealed_against))
		return FSM_INVALID;
	if (c->credential)
		rc = note_seal(a, c->credential->kv, c->sealed_at_ms, &keys, &seals);
	if (rc == 0)
		rc = load(a, c->name, &old);
	if (rc)
		return rc;
	now = old;
	rc = set_fields(&c->fields, &now);
	if (rc == 0)
		rc = judge_change(a, c, &old, &now, seals);
	if (rc || is_judging(a))
		return rc;
	if (c->credential)
		rc = store_keys(a, &keys);
	return rc ? rc : put_changed(a, c, &old, &now);
}

/* ---- 37: delete ---- */

/* The keys' row stays for good: what was sealed once is in logs and snapshots. */
int fsm_remote_delete(struct apply *a, const void *command)
{
	const struct cmd_remote_delete *c = command;
	struct remote r;
	struct str child, topic;
	int rc = load(a, c->name, &r);
	if (rc)
		return rc;
	rc = c->force ? ERR_NOTFOUND : fsm_next_of_remote(a->txn, c->name, nothing, &child, &topic);
	if (rc == 0) {
		fsm_set_hint(a, child);
		return FSM_REMOTE_IN_USE;
	}
	if (rc != ERR_NOTFOUND)
		return rc;
	return is_judging(a) ? 0 : fsm_del(a, STORE_REMOTES, c->name);
}
