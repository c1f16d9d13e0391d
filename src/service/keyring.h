/* service/keyring.h - sealing the passwords of other clusters, and opening them again.
 *
 * From the cluster's secret and the salt that its first remote brought come (HKDF with SHA-512) a key for AES-256-GCM,
 * a name for that key, and a key for fingerprints. A password is sealed with a random nonce and bound, as associated
 * data, to the remote's name, id, URL, user and trust anchor: moved to another record it does not open. The previous
 * secret's key only opens. Labels and layouts are Narad's, so that a registry that is carried over opens here.
 * Ownership: a struct belongs to its caller, who wipes it.   Thread: any.   Source: RFC 5869, NIST SP 800-38D,
 * Narad 3.2.
 */
#ifndef SERVICE_KEYRING_H
#define SERVICE_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/commands.h"
#include "model/remotes.h"

#define KEYRING_SECRET_MIN 32 /* bytes: of a shorter one no key is made */
#define KEYRING_SALT 32
#define KEYRING_PRINT_SIZE 13 /* 12 hex digits and a NUL */

struct keyring_key {
	char version[SEALED_KV_LEN + 1]; /* "" = there is none */
	uint8_t cipher[32];              /* secret */
	uint8_t print[64];               /* secret */
};

struct keyring {
	struct keyring_key current, previous;
};

/* What both secrets are; borrowed. */
struct keyring_secrets {
	const uint8_t *current; /* NULL = none */
	size_t current_len;
	const uint8_t *previous; /* NULL = none */
	size_t previous_len;
};

bool keyring_may_seal(const struct keyring_secrets *s); /* is there a secret, and is it long enough? */
/* ERR_SYSTEM: the library failed. The caller asked keyring_may_seal. */
MUST_CHECK int keyring_init(struct keyring *k, const struct keyring_secrets *s, struct str salt, struct err *e);
void keyring_wipe(struct keyring *k);

/* Under the current key; the text in the arena. */
MUST_CHECK int keyring_seal(const struct keyring *k, const struct cmd_sealed_tuple *to, struct str password,
                            struct arena *arena, struct sealed *out, struct err *e);
/* At most PASSWORD_MAX bytes into `out`; the caller wipes them. ERR_NOTFOUND: sealed under a key that is not held here;
 * ERR_CORRUPT: it does not open for this tuple. */
MUST_CHECK int keyring_open(const struct keyring *k, const struct cmd_sealed_tuple *to, const struct sealed *sealed,
                            char out[PASSWORD_MAX], size_t *len, struct err *e);
/* Under the current key: tells whether two passwords are the same to who holds the secret, and nothing to others. */
void keyring_print(const struct keyring *k, struct str id, struct str password, char out[KEYRING_PRINT_SIZE]);

#endif /* SERVICE_KEYRING_H */
