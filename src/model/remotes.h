/* model/remotes.h - what a remote's record may hold: its URL, its limits, its certificates.
 *
 * Judged without any state, by service/ for a request and by fsm/ for an entry alike.
 * Thread: any.   Source: Narad 3.2.
 */
#ifndef MODEL_REMOTES_H
#define MODEL_REMOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/sha512.h"
#include "model/records.h"
#include "model/rules.h"

/* ---- URLs: https, a host, maybe a port and a path; no user, query or fragment ---- */

#define REMOTE_PORT_DEFAULT 443

struct remote_url {
	struct host_port at; /* host as written; borrowed from the text */
	struct str path;     /* without the slashes at its end; "" = none */
};
bool remote_url_parse(struct str text, struct remote_url *out);
/* The stored form: scheme and host in lower case, no port if it is 443, no slash at the end. Appended. */
void remote_url_put(const struct remote_url *u, struct buf *out);
/* Do both name the same host, whatever the case, and the same port? */
bool remote_url_same_place(const struct remote_url *a, const struct remote_url *b);

/* ---- limits ---- */

extern const struct remote_limits remote_limits_default;

/* What is 0 or "" reads as its default. */
struct remote_limits remote_limits_filled(const struct remote_limits *l);
/* `l` filled, then what the patch names. Texts are borrowed from both. */
struct remote_limits remote_limits_patched(const struct remote_limits *l, const struct remote_limits_patch *p);
/* Is each named one in its range? 0 and "" name nothing that could be asked for. NULL names nothing. */
MUST_CHECK int rules_check_remote_limits(const struct remote_limits_patch *p, struct record_fault *f, struct err *e);

/* ---- certificates: PEM blocks, and text before them; nothing but white space behind the last ---- */

#define REMOTE_CERTS_MAX 16

/* Cuts the next block off `text`; its content, decoded, replaces what `der` holds. False: there is none, or the next
 * thing that begins like one is not a whole CERTIFICATE; `text` then stands where it stood. */
bool pem_next_certificate(struct str *text, struct buf *der);

#define REMOTE_ANCHOR_SYSTEM "system-roots"
#define REMOTE_ANCHOR_SIZE (2 * SHA512_SIZE + 1)

/* What a credential is bound to: the digest, in hex, of the certificates in order, each spelt anew, so that line
 * lengths and what stands between them do not count; of "" REMOTE_ANCHOR_SYSTEM. False: not a bundle. */
bool remote_trust_anchor(struct str ca_pem, char out[REMOTE_ANCHOR_SIZE]);

/* ---- credentials ---- */

#define SEALED_VERSION 1
#define SEALED_KV_LEN 16
#define SEALS_MAX (UINT64_C(1) << 30) /* under one key; frozen: part of what types 35 and 36 mean */

bool sealed_is_formed(const struct sealed *c); /* known version, a key version, not empty */

/* ---- whole bodies; certificates as certificates are service's to read ---- */

MUST_CHECK int rules_check_remote_create(const struct remote_create *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_remote_patch(const struct remote_patch *b, struct record_fault *f, struct err *e);

#endif /* MODEL_REMOTES_H */
