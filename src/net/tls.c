#include "net/tls.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Forward secrecy and AEAD only; TLS 1.3 has nothing else. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define WHY_MAX 160

struct net_tls {
	struct net_tls_files files;
	pthread_mutex_t lock; /* of ctx: held for a count up, never for a file */
	SSL_CTX *ctx;
};

struct net_tls_session {
	SSL *ssl;
	enum net_direction read_wants, write_wants;
	bool more;
	bool is_http;
	int failed; /* what ended it, < 0; 0 = alive */
	char why[WHY_MAX];
};

/* ---- words ---- */

/* The queue's first error is the cause; those behind it say who passed it on. */
static const char *take_reason(char *out, size_t cap)
{
	const unsigned long code = ERR_peek_error();
	const char *text = code && ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
	                   : code                         ? ERR_reason_error_string(code)
	                                                  : NULL;
	(void)snprintf(out, cap, "%s", text ? text : "an unknown error");
	ERR_clear_error();
	return out;
}

static bool is_first_error(int lib, int reason)
{
	const unsigned long code = ERR_peek_error();
	return ERR_GET_LIB(code) == lib && ERR_GET_REASON(code) == reason;
}

/* ---- contexts ---- */

/* OpenSSL would ask the terminal. An encrypted key is refused: a daemon has nobody to ask. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static void set_rules(SSL_CTX *ctx)
{
	const bool min_ok = SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
	const bool ciphers_ok = SSL_CTX_set_cipher_list(ctx, CIPHERS_12) == 1;
	assert(min_ok && ciphers_ok); /* constants this library knows */
	/* A stream that ends without a goodbye is one that ended: requests and frames carry their own lengths. */
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* Buffers move and grow between two tries of one write. Idle connections hold no buffers. */
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                                SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ctx, 1); /* else each record is two reads: its head and its body */
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
}

static int use_certificate(SSL_CTX *ctx, const struct net_tls_files *f, struct err *e)
{
	char why[WHY_MAX];
	if (SSL_CTX_use_certificate_chain_file(ctx, f->cert) != 1)
		return err_set(e, ERR_INVALID, "cannot use the certificate in %s: %s", f->cert,
		               take_reason(why, sizeof(why)));
	if (SSL_CTX_use_PrivateKey_file(ctx, f->key, SSL_FILETYPE_PEM) == 1)
		return 0;
	if (is_first_error(ERR_LIB_X509, X509_R_KEY_VALUES_MISMATCH) ||
	    is_first_error(ERR_LIB_X509, X509_R_KEY_TYPE_MISMATCH)) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, "%s is not the key of the certificate in %s", f->key, f->cert);
	}
	return err_set(e, ERR_INVALID, "cannot use the key in %s: %s", f->key, take_reason(why, sizeof(why)));
}

/* Both sides show their certificates and none is taken on trust. Nothing is resumed: each link proves itself anew. */
static int use_authority(SSL_CTX *ctx, const char *path, struct err *e)
{
	char why[WHY_MAX];
	STACK_OF(X509_NAME) *const names = SSL_load_client_CA_file(path);
	if (!names || SSL_CTX_load_verify_file(ctx, path) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return err_set(e, ERR_INVALID, "cannot use the authority's certificates in %s: %s", path,
		               take_reason(why, sizeof(why)));
	}
	SSL_CTX_set_client_CA_list(ctx, names); /* takes them */
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	return 0;
}

static int load(const struct net_tls_files *f, SSL_CTX **out, struct err *e)
{
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	if (!ctx)
		return err_set(e, ERR_NOMEM, "no memory for TLS");
	set_rules(ctx);
	int rc = use_certificate(ctx, f, e);
	if (!rc && f->ca)
		rc = use_authority(ctx, f->ca, e);
	if (rc)
		SSL_CTX_free(ctx);
	else
		*out = ctx;
	return rc;
}

int net_tls_new(const struct net_tls_files *files, struct net_tls **out, struct err *e)
{
	SSL_CTX *ctx = NULL;
	const int rc = load(files, &ctx, e);
	if (rc)
		return rc;
	struct net_tls *t = mem_zalloc(sizeof(*t));
	t->files.cert = mem_strdup(files->cert);
	t->files.key = mem_strdup(files->key);
	t->files.ca = files->ca ? mem_strdup(files->ca) : NULL;
	t->ctx = ctx;
	(void)pthread_mutex_init(&t->lock, NULL); /* cannot fail with default attributes */
	*out = t;
	return 0;
}

void net_tls_free(struct net_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx); /* sessions hold counts of their own */
	(void)pthread_mutex_destroy(&t->lock);
	mem_free((char *)t->files.cert);
	mem_free((char *)t->files.key);
	mem_free((char *)t->files.ca);
	mem_free(t);
}

int net_tls_reload(struct net_tls *t, struct err *e)
{
	SSL_CTX *ctx = NULL;
	const int rc = load(&t->files, &ctx, e);
	if (rc)
		return rc;
	(void)pthread_mutex_lock(&t->lock);
	SSL_CTX *const old = t->ctx;
	t->ctx = ctx;
	(void)pthread_mutex_unlock(&t->lock);
	SSL_CTX_free(old);
	return 0;
}

bool net_tls_is_mutual(const struct net_tls *t)
{
	return t->files.ca != NULL;
}

static SSL_CTX *current_context(struct net_tls *t)
{
	(void)pthread_mutex_lock(&t->lock);
	SSL_CTX *const ctx = t->ctx;
	(void)SSL_CTX_up_ref(ctx);
	(void)pthread_mutex_unlock(&t->lock);
	return ctx;
}

/* ---- names ---- */

/* A node's id may stand as a DNS name beside the host's; a certificate without DNS names is asked for its common name,
 * as OpenSSL does it. No wildcard covers an id, and one covers a host's first label only. */
static bool names(X509 *cert, const char *id, const char *host)
{
	const unsigned whole = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
	if (id && X509_check_host(cert, id, 0, whole | X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1)
		return true;
	return host && (X509_check_ip_asc(cert, host, 0) == 1 || X509_check_host(cert, host, 0, whole, NULL) == 1);
}

bool net_tls_names_self(struct net_tls *t, const char *id, const char *host)
{
	SSL_CTX *const ctx = current_context(t);
	const bool found = names(SSL_CTX_get0_certificate(ctx), id, host);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	return found;
}

bool net_tls_session_names(const struct net_tls_session *s, const char *id, const char *host)
{
	X509 *const cert = SSL_get0_peer_certificate(s->ssl);
	const bool found =
	    SSL_is_init_finished(s->ssl) && cert && SSL_get_verify_result(s->ssl) == X509_V_OK && names(cert, id, host);
	ERR_clear_error();
	return found;
}

bool net_tls_session_is_mutual(const struct net_tls_session *s)
{
	return (SSL_get_verify_mode(s->ssl) & SSL_VERIFY_FAIL_IF_NO_PEER_CERT) != 0;
}

/* ---- sessions ---- */

struct net_tls_session *net_tls_session_new(struct net_tls *t, int fd, bool is_client)
{
	SSL_CTX *const ctx = current_context(t);
	SSL *const ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	if (is_client)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	struct net_tls_session *s = mem_zalloc(sizeof(*s));
	s->ssl = ssl;
	s->read_wants = NET_READ;
	s->write_wants = NET_WRITE;
	return s;
}

void net_tls_session_end(struct net_tls_session *s)
{
	if (s->failed || !SSL_is_init_finished(s->ssl) || SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN)
		return;
	/* Without room in the socket's buffer it is left out: a courtesy, since all lengths are known. */
	(void)SSL_shutdown(s->ssl);
	ERR_clear_error();
}

void net_tls_session_free(struct net_tls_session *s)
{
	if (!s)
		return;
	net_tls_session_end(s);
	SSL_free(s->ssl);
	mem_free(s);
}

static ssize_t fail(struct net_tls_session *s, int code)
{
	s->failed = code;
	s->more = true; /* whoever waits for the socket hears of it all the same */
	return code;
}

static ssize_t fail_protocol(struct net_tls_session *s)
{
	char reason[WHY_MAX - 40];
	const long verified = SSL_get_verify_result(s->ssl);
	const bool is_http = is_first_error(ERR_LIB_SSL, SSL_R_HTTP_REQUEST);
	const bool is_unverified = is_first_error(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
	const bool is_alien = is_first_error(ERR_LIB_SSL, SSL_R_WRONG_VERSION_NUMBER) ||
	                      is_first_error(ERR_LIB_SSL, SSL_R_BAD_RECORD_TYPE) || is_http;
	(void)take_reason(reason, sizeof(reason));
	s->is_http = is_http;
	if (is_alien && !SSL_is_init_finished(s->ssl))
		(void)snprintf(s->why, sizeof(s->why), "it does not speak TLS, or none that is allowed here");
	else if (is_unverified)
		(void)snprintf(s->why, sizeof(s->why), "its certificate is refused: %s",
		               X509_verify_cert_error_string(verified));
	else
		(void)snprintf(s->why, sizeof(s->why), "TLS failed: %s", reason);
	return fail(s, -EPROTO);
}

/* What a call that moved nothing means; `wants` of its direction. */
static ssize_t outcome(struct net_tls_session *s, int rc, int errnum, enum net_direction *wants)
{
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ: *wants = NET_READ; return 0;
	case SSL_ERROR_WANT_WRITE: *wants = NET_WRITE; return 0;
	case SSL_ERROR_ZERO_RETURN: return fail(s, -ENODATA);
	case SSL_ERROR_SYSCALL: return fail(s, errnum ? -errnum : -ECONNRESET);
	default: return fail_protocol(s);
	}
}

ssize_t net_tls_session_recv(struct net_tls_session *s, void *p, size_t n)
{
	size_t got;
	if (s->failed)
		return s->failed;
	ERR_clear_error();
	errno = 0;
	const int rc = SSL_read_ex(s->ssl, p, n, &got);
	const int errnum = errno;
	s->read_wants = NET_READ;
	s->more = rc == 1 && SSL_has_pending(s->ssl);
	return rc == 1 ? (ssize_t)got : outcome(s, rc, errnum, &s->read_wants);
}

ssize_t net_tls_session_send(struct net_tls_session *s, const void *p, size_t n)
{
	size_t sent;
	/* The other side has said that it sends no more; it may still listen. */
	if (s->failed && s->failed != -ENODATA)
		return s->failed;
	ERR_clear_error();
	errno = 0;
	const int rc = SSL_write_ex(s->ssl, p, n, &sent);
	const int errnum = errno;
	s->write_wants = NET_WRITE;
	return rc == 1 ? (ssize_t)sent : outcome(s, rc, errnum, &s->write_wants);
}

enum net_direction net_tls_session_read_wants(const struct net_tls_session *s)
{
	return s->read_wants;
}

enum net_direction net_tls_session_write_wants(const struct net_tls_session *s)
{
	return s->write_wants;
}

bool net_tls_session_has_more(const struct net_tls_session *s)
{
	return s->more;
}

const char *net_tls_session_why(const struct net_tls_session *s)
{
	return s->why;
}

bool net_tls_session_is_http(const struct net_tls_session *s)
{
	return s->is_http;
}
