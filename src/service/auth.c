#include "service/auth.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "model/base64.h"
#include "service/auth_internal.h"
#include "service/throttle.h"

#define KEY_SIZE 32
#define HEADER_MAX 256 /* characters of base64: a name, a colon and a password take 184 */

/* A password that was right. */
struct verified {
	char name[SVC_USER_MAX + 1]; /* "": unused */
	uint8_t mac[AUTH_MAC_SIZE];
	uint64_t used;
};

/* One bcrypt under way, and everybody who waits for the same answer. */
struct flight {
	struct bcrypt_job job;
	struct auth *auth;
	char name[SVC_USER_MAX + 1];
	uint8_t mac[AUTH_MAC_SIZE];
	struct throttle_claim claim;
	struct svc_task *waiters; /* by login_next */
	struct flight *next;
};

struct auth {
	EVP_MAC *hmac;
	uint8_t key[KEY_SIZE];
	struct bcrypt_queue *bcrypt;
	struct auth_counts counts;

	pthread_mutex_t lock; /* of what follows */
	struct flight *flights;
	uint64_t clock;
	struct throttle throttle;
	struct verified verified[AUTH_VERIFIED_SETS][AUTH_WAYS];
};

/* Of a task that waits for a flight. */
struct svc_login {
	uint8_t mac[AUTH_MAC_SIZE];
	svc_auth_done done;
};

struct auth *auth_new(struct bcrypt_queue *bcrypt)
{
	struct auth *au = mem_zalloc(sizeof(*au));

	au->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	assert(au->hmac); /* part of every OpenSSL 3 */
	rand_secure(au->key, sizeof(au->key));
	au->bcrypt = bcrypt;
	pthread_mutex_init(&au->lock, NULL);
	return au;
}

void auth_free(struct auth *au)
{
	if (!au)
		return;
	assert(!au->flights);
	pthread_mutex_destroy(&au->lock);
	EVP_MAC_free(au->hmac);
	explicit_bzero(au, sizeof(*au));
	mem_free(au);
}

struct auth_counts *auth_counts(struct auth *au)
{
	return &au->counts;
}

/* ---- what is remembered of a password ---- */

EVP_MAC_CTX *auth_mac_new(struct auth *au)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(au->hmac);
	const int ok = ctx && EVP_MAC_init(ctx, au->key, sizeof(au->key), params);

	assert(ok == 1); /* fails on exhaustion, where this program stops anyway */
	return ctx;
}

void auth_mac_free(EVP_MAC_CTX *mac)
{
	EVP_MAC_CTX_free(mac);
}

/* Of the password and the hash it is to fit. */
static void make_mac(EVP_MAC_CTX *ctx, uint64_t credential, struct str password, uint8_t out[AUTH_MAC_SIZE])
{
	uint8_t head[8];
	size_t n = 0;

	put_le64(head, credential);
	const int ok = EVP_MAC_init(ctx, NULL, 0, NULL) && EVP_MAC_update(ctx, head, sizeof(head)) &&
	               EVP_MAC_update(ctx, (const uint8_t *)password.p, password.len) &&
	               EVP_MAC_final(ctx, out, &n, AUTH_MAC_SIZE);

	assert(ok == 1 && n == AUTH_MAC_SIZE);
}

/* Its own place in its set, else the one used longest ago. Under the lock. */
static struct verified *verified_place(struct auth *au, const char *name)
{
	struct verified *set = au->verified[fsm_hash(str_of(name)) & (AUTH_VERIFIED_SETS - 1)], *oldest = &set[0];

	for (size_t w = 0; w < AUTH_WAYS; w++) {
		if (strcmp(set[w].name, name) == 0)
			return &set[w];
		if (set[w].used < oldest->used)
			oldest = &set[w];
	}
	return oldest;
}

static bool is_verified(struct auth *au, const char *name, const uint8_t *mac)
{
	struct verified *v = verified_place(au, name);

	if (strcmp(v->name, name) != 0 || CRYPTO_memcmp(v->mac, mac, AUTH_MAC_SIZE) != 0)
		return false;
	v->used = ++au->clock;
	return true;
}

static void note_verified(struct auth *au, const char *name, const uint8_t *mac)
{
	struct verified *v = verified_place(au, name);

	memcpy(v->name, name, sizeof(v->name));
	memcpy(v->mac, mac, AUTH_MAC_SIZE);
	v->used = ++au->clock;
}

/* ---- flights ---- */

static struct flight *find_flight(struct auth *au, const char *name, const uint8_t *mac)
{
	struct flight *f = au->flights;

	while (f && (strcmp(f->name, name) != 0 || CRYPTO_memcmp(f->mac, mac, AUTH_MAC_SIZE) != 0))
		f = f->next;
	return f;
}

static void unlink_flight(struct flight *f)
{
	struct flight **at = &f->auth->flights;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
}

static void free_flight(struct flight *f)
{
	bcrypt_job_wipe(&f->job);
	mem_free(f);
}

/* On a pool thread. A task may be somebody else's as soon as its completion is put. */
static void on_landed(struct bcrypt_job *job)
{
	struct flight *f = CONTAINER_OF(job, struct flight, job);
	struct auth *au = f->auth;
	const uint64_t now_ms = clock_mono_ms();
	const bool ok = job->ok;

	pthread_mutex_lock(&au->lock);
	unlink_flight(f);
	if (ok) {
		note_verified(au, f->name, f->mac);
		throttle_give_back(&au->throttle, &f->claim, now_ms);
	} else {
		throttle_failed(&au->throttle, &f->claim, now_ms);
	}
	pthread_mutex_unlock(&au->lock);
	for (struct svc_task *t = f->waiters; t;) {
		struct svc_task *next = t->login_next;

		svc_task_complete(t, ok ? 0 : ERR_REFUSED);
		t = next;
	}
	free_flight(f);
}

enum boarding { BOARDED, KNOWN, WRONG, THROTTLED, NO_ROOM };

/* Under the lock. A flight of the same password takes everybody along, and nothing more from the throttle. */
static enum boarding board(struct auth *au, struct svc_task *t, const char *peer, const struct auth_user *u,
                           struct str password, uint32_t *retry_s)
{
	const uint8_t *mac = t->login->mac;
	const uint64_t now_ms = clock_mono_ms();
	struct flight *f = find_flight(au, u->name, mac);

	if (!f) {
		struct throttle_claim claim;

		if (is_verified(au, u->name, mac))
			return KNOWN;
		throttle_claim_init(&claim, peer, str_of(u->name));
		*retry_s = throttle_take(&au->throttle, &claim, now_ms);
		if (*retry_s > 0)
			return THROTTLED;
		f = mem_zalloc(sizeof(*f));
		f->auth = au;
		f->claim = claim;
		memcpy(f->name, u->name, sizeof(f->name));
		memcpy(f->mac, mac, AUTH_MAC_SIZE);
		/* A stored hash of which nothing can be computed fits no password. */
		const bool ok = bcrypt_job_init(&f->job, password, u->rights.user.password_hash);

		f->job.done = on_landed;
		if (!ok || !bcrypt_submit(au->bcrypt, &f->job)) {
			if (ok)
				throttle_give_back(&au->throttle, &claim, now_ms);
			else
				throttle_failed(&au->throttle, &claim, now_ms);
			free_flight(f);
			return ok ? NO_ROOM : WRONG;
		}
		f->next = au->flights;
		au->flights = f;
	}
	t->login_next = f->waiters;
	f->waiters = t;
	svc_task_expect(t);
	return BOARDED;
}

/* ---- the answers ---- */

static void fail_credentials(struct svc_answer *a)
{
	svc_fail(a, 401, "unauthenticated", NULL, "authentication required");
}

static void fail_throttled(struct svc *s, uint32_t retry_s, struct svc_answer *a)
{
	atomic_fetch_add_explicit(&s->shared->auth->counts.throttled, 1, memory_order_relaxed);
	svc_fail(a, 429, "throttled", NULL, "too many failed authentication attempts");
	a->retry_after_s = retry_s;
}

static void fail_busy(struct svc_answer *a)
{
	svc_fail_write(a, 503, "overloaded", "none", 0, "too many logins wait to be verified; try again");
}

static void fail_not_ready(struct svc_answer *a, const char *why)
{
	svc_fail_write(a, 503, "not_ready", "none", 0, "%s", why);
}

static void note_failure(struct svc *s, const char *peer, const char *name)
{
	atomic_fetch_add_explicit(&s->shared->auth->counts.failed, 1, memory_order_relaxed);
	if (log_allow(&s->login_log, 1000))
		log_warn("auth.failed", "peer=%s user=%s reason=\"wrong password\"", peer, name);
}

static void refuse(struct svc_answer *a, svc_auth_done done, void *arg)
{
	done(arg, NULL, a);
	buf_fini(&a->body);
}

/* ---- the header ---- */

struct basic {
	char text[HEADER_MAX];
	struct str user, password;
};

/* RFC 7617. False: not there, or not of this form, or nothing that could be right. */
static bool read_basic(struct str header, struct basic *out)
{
	static const char scheme[] = "Basic ";
	size_t len;

	if (header.len < sizeof(scheme) - 1 || strncasecmp(header.p, scheme, sizeof(scheme) - 1) != 0)
		return false;
	header.p += sizeof(scheme) - 1;
	header.len -= sizeof(scheme) - 1;
	while (header.len > 0 && header.p[0] == ' ') {
		header.p++;
		header.len--;
	}
	if (header.len > HEADER_MAX || !base64_decode(out->text, &len, header))
		return false;
	const char *colon = len ? memchr(out->text, ':', len) : NULL;

	if (!colon)
		return false;
	out->user = (struct str){ out->text, (size_t)(colon - out->text) };
	out->password = (struct str){ colon + 1, len - out->user.len - 1 };
	return rule_user_name(out->user) && rule_password(out->password) &&
	       !memchr(out->password.p, '\0', out->password.len);
}

/* ---- authenticating ---- */

static int begin_read(struct svc *s, struct store_txn **txn, struct svc_answer *a)
{
	struct err e = { 0 };

	if (!svc_node_status(s, NULL)->configured) {
		fail_not_ready(a, "this node is not part of a cluster yet: it holds no Raft configuration");
		return ERR_BUSY;
	}
	if (fsm_read(&s->reader, txn, &e) != 0) {
		fail_not_ready(a, "the replica is being replaced; try again");
		return ERR_BUSY;
	}
	return 0;
}

static int find_user(struct svc *s, struct str name, struct auth_user **out, struct svc_answer *a)
{
	struct store_txn *txn;
	int rc = begin_read(s, &txn, a);

	if (rc != 0)
		return rc;
	rc = auth_get_user(s, txn, name, out);
	/* A replica without users cannot know anybody; a client shall not take that for a wrong password. */
	if (rc == ERR_NOTFOUND && fsm_domain_version(s->shared->fsm, FSM_DOMAIN_USERS) == 0)
		fail_not_ready(a, "there are no users yet: the leader makes the first one");
	else if (rc == ERR_NOTFOUND)
		fail_credentials(a);
	else if (rc != 0)
		fail_not_ready(a, "this node cannot read its replica; ask another node");
	return rc;
}

static struct svc_principal principal_of(const struct auth_user *u)
{
	struct svc_principal p = {
		.root = u->rights.user.root,
		.credential = u->rights.credential,
		.version = u->version,
	};

	memcpy(p.name, u->name, sizeof(p.name));
	return p;
}

static void keep_mac(struct auth_user *u, const uint8_t *mac)
{
	memcpy(u->mac, mac, AUTH_MAC_SIZE);
	u->has_mac = true;
}

static void land(struct svc_task *t, const struct svc_principal *p, struct svc_answer *a)
{
	svc_auth_done done = t->login->done;
	void *arg = t->arg;

	svc_task_release(t);
	done(arg, p, a);
	buf_fini(&a->body);
}

/* The hash may have changed since it was compared; then what was found out is about another password. */
static void on_verified(struct svc_task *t, enum svc_wake why)
{
	struct svc_principal p = t->rq.principal;
	struct svc_answer a = { 0 };
	struct auth_user *u;

	if (why == SVC_WAKE_TIMEOUT) {
		fail_busy(&a);
	} else if (t->completion.code != 0) {
		note_failure(t->svc, t->rq.peer, p.name);
		fail_credentials(&a);
	} else if (find_user(t->svc, str_of(p.name), &u, &a) == 0) {
		if (u->rights.credential == p.credential) {
			keep_mac(u, t->login->mac);
			p = principal_of(u);
			land(t, &p, &a);
			return;
		}
		fail_credentials(&a);
	}
	land(t, NULL, &a);
}

/* Not known to this thread: to another one, or bcrypt says. */
static void verify(struct svc *s, struct auth_user *u, const struct basic *b, const uint8_t *mac, const char *peer,
                   svc_auth_done done, void *arg)
{
	struct auth *au = s->shared->auth;
	struct svc_principal p = principal_of(u);
	struct svc_task *t = svc_task_new(s);
	struct svc_answer a = { 0 };
	uint32_t retry_s = 0;

	if (!t) {
		fail_busy(&a);
		refuse(&a, done, arg);
		return;
	}
	t->arg = arg;
	t->resume = on_verified;
	t->rq = (struct svc_request){ .principal = p };
	snprintf(t->rq.peer, sizeof(t->rq.peer), "%s", peer);
	t->login = arena_zalloc(&t->arena, sizeof(*t->login));
	t->login->done = done;
	memcpy(t->login->mac, mac, AUTH_MAC_SIZE);
	pthread_mutex_lock(&au->lock);
	const enum boarding how = board(au, t, peer, u, b->password, &retry_s);

	pthread_mutex_unlock(&au->lock);
	switch (how) {
	case BOARDED: svc_task_wait_expected(t, BCRYPT_WAIT_MS); return;
	case KNOWN:
		keep_mac(u, mac);
		land(t, &p, &a);
		return;
	case WRONG: fail_credentials(&a); break;
	case THROTTLED: fail_throttled(s, retry_s, &a); break;
	case NO_ROOM: fail_busy(&a); break;
	}
	land(t, NULL, &a);
}

void svc_authenticate(struct svc *s, struct str header, const char *peer, svc_auth_done done, void *arg)
{
	struct svc_answer a = { 0 };
	struct svc_principal p;
	struct auth_user *u;
	struct basic b;
	uint8_t mac[AUTH_MAC_SIZE];

	if (!header.p || !read_basic(header, &b)) {
		fail_credentials(&a);
		refuse(&a, done, arg);
	} else if (find_user(s, b.user, &u, &a) != 0) {
		refuse(&a, done, arg);
	} else {
		make_mac(s->known->mac, u->rights.credential, b.password, mac);
		if (u->has_mac && CRYPTO_memcmp(u->mac, mac, AUTH_MAC_SIZE) == 0) {
			p = principal_of(u);
			done(arg, &p, NULL);
		} else {
			verify(s, u, &b, mac, peer, done, arg);
		}
	}
	explicit_bzero(&b, sizeof(b));
}

bool svc_session_is(const struct svc *s, const struct svc_session *session, struct str header)
{
	return session->len > 0 && header.len == session->len &&
	       CRYPTO_memcmp(session->header, header.p, header.len) == 0 &&
	       session->principal.version == fsm_domain_version(s->shared->fsm, FSM_DOMAIN_USERS);
}

void svc_session_keep(struct svc_session *session, struct str header, const struct svc_principal *p)
{
	explicit_bzero(session, sizeof(*session));
	if (header.len > sizeof(session->header))
		return;
	memcpy(session->header, header.p, header.len);
	session->len = header.len;
	session->principal = *p;
}

/* ---- what a request may ---- */

int auth_rights_of(struct svc *s, struct store_txn *txn, const struct svc_principal *p, const struct rights **out)
{
	struct auth_user *u;

	*out = &rights_of_all;
	if (!s->shared->auth)
		return 0;
	if (p->anonymous)
		return ERR_NOTFOUND;
	int rc = auth_get_user(s, txn, str_of(p->name), &u);

	if (rc != 0)
		return rc;
	*out = &u->rights;
	return u->rights.credential == p->credential ? 0 : ERR_NOTFOUND;
}

static bool has_grant(const struct rights *r, enum svc_grant grant)
{
	switch (grant) {
	case SVC_GRANT_ADMIN: return r->is_admin;
	case SVC_GRANT_OBSERVE: return r->reads_all;
	default: return true;
	}
}

int auth_check(struct svc *s, struct store_txn *txn, const struct svc_request *rq, const struct rights **out, bool *may,
               struct svc_answer *a)
{
	int rc = auth_rights_of(s, txn, &rq->principal, out);

	*may = false;
	if (rc == ERR_NOTFOUND) {
		fail_credentials(a);
		return 0;
	}
	if (rc != 0)
		return rc;
	*may = has_grant(*out, rq->grant);
	if (!*may)
		svc_fail(a, 403, "forbidden", NULL,
		         rq->grant == SVC_GRANT_ADMIN ? "admin privileges required"
		                                      : "reading this needs the grant observe, member or admin");
	return 0;
}

bool svc_task_may(struct svc_task *t, struct svc_answer *a)
{
	struct svc *s = t->svc;
	const struct rights *rights;
	struct store_txn *txn;
	struct err e = { 0 };
	bool may = false;

	if (fsm_read(&s->reader, &txn, &e) != 0 || auth_check(s, txn, &t->rq, &rights, &may, a) != 0) {
		fail_not_ready(a, "this node cannot read its replica; ask another node");
		return false;
	}
	if (!may)
		a->index = fsm_reader_index(&s->reader);
	return may;
}
