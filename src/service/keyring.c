#include "service/keyring.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/rand.h"

#define LABEL_KEY "narad remote credential v1: aes-256-gcm key"
#define LABEL_ID "narad remote credential v1: key id"
#define LABEL_PRINT "narad remote credential v1: fingerprint key"
#define BOUND_PREFIX "narad-remote-credential-v1"

#define NONCE 12
#define TAG 16

bool keyring_may_seal(const struct keyring_secrets *s)
{
	return s->current && s->current_len >= KEYRING_SECRET_MIN;
}

void keyring_wipe(struct keyring *k)
{
	explicit_bzero(k, sizeof(*k));
}

/* ---- keys ---- */

static bool expand(EVP_KDF *kdf, const void *secret, size_t len, struct str salt, const char *label, uint8_t *out,
                   size_t size)
{
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA512", 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, len),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt.p, salt.len),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)label, strlen(label)),
		OSSL_PARAM_construct_end(),
	};
	const bool ok = ctx && EVP_KDF_derive(ctx, out, size, params) == 1;

	EVP_KDF_CTX_free(ctx);
	return ok;
}

static bool derive(struct keyring_key *k, const uint8_t *secret, size_t len, struct str salt)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	uint8_t id[SEALED_KV_LEN / 2];
	const bool ok = kdf && expand(kdf, secret, len, salt, LABEL_KEY, k->cipher, sizeof(k->cipher)) &&
	                expand(kdf, secret, len, salt, LABEL_ID, id, sizeof(id)) &&
	                expand(kdf, secret, len, salt, LABEL_PRINT, k->print, sizeof(k->print));

	EVP_KDF_free(kdf);
	if (ok)
		hex64(k->version, get_be64(id));
	return ok;
}

int keyring_init(struct keyring *k, const struct keyring_secrets *s, struct str salt, struct err *e)
{
	memset(k, 0, sizeof(*k));
	if (derive(&k->current, s->current, s->current_len, salt) &&
	    (!s->previous || derive(&k->previous, s->previous, s->previous_len, salt)))
		return 0;
	keyring_wipe(k);
	return err_set(e, ERR_SYSTEM, "the keys for sealing could not be made");
}

/* ---- sealing ---- */

static void put_bound(struct buf *out, struct str s)
{
	const uint8_t len[4] = { (uint8_t)(s.len >> 24), (uint8_t)(s.len >> 16), (uint8_t)(s.len >> 8),
		                 (uint8_t)s.len };

	buf_put(out, len, sizeof(len));
	buf_put(out, s.p, s.len);
}

static void put_tuple(struct buf *out, const struct cmd_sealed_tuple *to)
{
	put_bound(out, STR_LIT(BOUND_PREFIX));
	put_bound(out, to->name);
	put_bound(out, to->id);
	put_bound(out, to->url);
	put_bound(out, to->username);
	put_bound(out, to->trust_anchor);
}

/* Runs the cipher over `n` bytes; the tag is made or demanded. */
static bool run(const struct keyring_key *k, bool seal, const uint8_t *nonce, const struct buf *bound,
                const uint8_t *in, size_t n, uint8_t *out, uint8_t *tag)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t rest[TAG];
	int len;
	bool ok = ctx && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, k->cipher, nonce, seal) == 1 &&
	          EVP_CipherUpdate(ctx, NULL, &len, bound->data, (int)bound->len) == 1 &&
	          EVP_CipherUpdate(ctx, out, &len, in, (int)n) == 1;

	if (ok && !seal)
		ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1;
	ok = ok && EVP_CipherFinal_ex(ctx, rest, &len) == 1;
	if (ok && seal)
		ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, tag) == 1;
	EVP_CIPHER_CTX_free(ctx);
	return ok;
}

int keyring_seal(const struct keyring *k, const struct cmd_sealed_tuple *to, struct str password, struct arena *arena,
                 struct sealed *out, struct err *e)
{
	uint8_t *ct = arena_alloc(arena, NONCE + password.len + TAG);
	struct buf bound = { 0 };

	rand_secure(ct, NONCE);
	put_tuple(&bound, to);
	const bool ok = run(&k->current, true, ct, &bound, (const uint8_t *)password.p, password.len, ct + NONCE,
	                    ct + NONCE + password.len);

	buf_fini(&bound);
	if (!ok)
		return err_set(e, ERR_SYSTEM, "the password could not be sealed");
	out->v = SEALED_VERSION;
	out->kv = (struct str){ arena_dup(arena, k->current.version, SEALED_KV_LEN), SEALED_KV_LEN };
	out->ct = (struct str){ (const char *)ct, NONCE + password.len + TAG };
	return 0;
}

static const struct keyring_key *key_of(const struct keyring *k, const struct sealed *s)
{
	if (s->v != SEALED_VERSION)
		return NULL;
	if (str_is(s->kv, k->current.version))
		return &k->current;
	return k->previous.version[0] && str_is(s->kv, k->previous.version) ? &k->previous : NULL;
}

int keyring_open(const struct keyring *k, const struct cmd_sealed_tuple *to, const struct sealed *sealed,
                 char out[PASSWORD_MAX], size_t *len, struct err *e)
{
	const struct keyring_key *key = key_of(k, sealed);
	const uint8_t *ct = (const uint8_t *)sealed->ct.p;
	struct buf bound = { 0 };
	uint8_t tag[TAG];

	if (!key)
		return err_set(e, ERR_NOTFOUND, "sealed under a key that no secret given here makes");
	if (sealed->ct.len < NONCE + TAG || sealed->ct.len > NONCE + PASSWORD_MAX + TAG)
		return err_set(e, ERR_CORRUPT, "not a sealed password");
	const size_t n = sealed->ct.len - NONCE - TAG;

	memcpy(tag, ct + NONCE + n, TAG);
	put_tuple(&bound, to);
	const bool ok = run(key, false, ct, &bound, ct + NONCE, n, (uint8_t *)out, tag);

	buf_fini(&bound);
	if (ok) {
		*len = n;
		return 0;
	}
	explicit_bzero(out, n);
	return err_set(e, ERR_CORRUPT, "it does not open for this remote");
}

void keyring_print(const struct keyring *k, struct str id, struct str password, char out[KEYRING_PRINT_SIZE])
{
	uint8_t mac[EVP_MAX_MD_SIZE] = { 0 };
	struct buf text = { 0 };
	unsigned len;

	put_bound(&text, id);
	put_bound(&text, password);
	(void)HMAC(EVP_sha512(), k->current.print, sizeof(k->current.print), text.data, text.len, mac,
	           &len); /* cannot fail with a fixed digest and buffer */
	explicit_bzero(text.data, text.len);
	buf_fini(&text);
	for (size_t i = 0; i < (KEYRING_PRINT_SIZE - 1) / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", mac[i]);
}
