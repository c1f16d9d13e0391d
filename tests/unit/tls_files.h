/* tests/unit/tls_files.h - an authority and certificates signed by it, made by the openssl command in a folder that
 * tls_files_fini removes. */
#ifndef TESTS_UNIT_TLS_FILES_H
#define TESTS_UNIT_TLS_FILES_H

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls.h"

struct tls_files {
	char dir[64];
};

static inline void tls_run(const char *format, ...)
{
	char command[1024];
	va_list ap;
	va_start(ap, format);
	const int n = vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	assert(n > 0 && (size_t)n < sizeof(command));
	const int rc = system(command); /* NOLINT(cert-env33-c): constants of the test */
	assert(rc == 0);
}

#define TLS_NEW_KEY "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"

static inline void tls_make_ca(const struct tls_files *f, const char *ca)
{
	tls_run("openssl req -x509 " TLS_NEW_KEY " -subj /CN=%s -keyout %s/%s.key -out %s/%s.pem 2>/dev/null", ca,
	        f->dir, ca, f->dir, ca);
}

/* `san` like "DNS:n1,IP:127.0.0.1". */
static inline void tls_make_cert(const struct tls_files *f, const char *ca, const char *name, const char *san)
{
	tls_run(
	    "cd %s && printf 'subjectAltName=%s' >%s.ext && openssl req -new " TLS_NEW_KEY
	    " -subj /CN=cert -keyout %s.key -out %s.csr 2>/dev/null && openssl x509 -req -days 2 -in %s.csr -CA %s.pem "
	    "-CAkey %s.key -CAcreateserial -extfile %s.ext -out %s.pem 2>/dev/null",
	    f->dir, san, name, name, name, name, ca, ca, name, name);
}

static inline void tls_files_init(struct tls_files *f)
{
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/veena-tls-XXXXXX");
	const char *dir = mkdtemp(f->dir);
	assert(dir);
	tls_make_ca(f, "ca");
	(void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
}

static inline void tls_files_fini(struct tls_files *f)
{
	tls_run("rm -r %s", f->dir);
}

/* Loads `name` with its key; ca NULL: not mutual. */
static inline int tls_load(const struct tls_files *f, const char *name, const char *ca, struct net_tls **out,
                           struct err *e)
{
	char cert[128], key[128], authority[128];
	(void)snprintf(cert, sizeof(cert), "%s/%s.pem", f->dir, name);
	(void)snprintf(key, sizeof(key), "%s/%s.key", f->dir, name);
	(void)snprintf(authority, sizeof(authority), "%s/%s.pem", f->dir, ca ? ca : "");
	const struct net_tls_files files = { .cert = cert, .key = key, .ca = ca ? authority : NULL };
	return net_tls_new(&files, out, e);
}

#endif /* TESTS_UNIT_TLS_FILES_H */
