/* service/auth_internal.h - what auth.c and known.c share. */
#ifndef SERVICE_AUTH_INTERNAL_H
#define SERVICE_AUTH_INTERNAL_H

#include <openssl/evp.h>

#include "service/auth.h"

struct auth_known {
	struct auth *auth;
	EVP_MAC_CTX *mac; /* HMAC-SHA256 with the process's key */
	uint64_t clock;   /* counts uses */
	struct auth_user *sets[AUTH_KNOWN_SETS][AUTH_WAYS];
};

EVP_MAC_CTX *auth_mac_new(struct auth *au);
void auth_mac_free(EVP_MAC_CTX *mac); /* accepts NULL */

#endif /* SERVICE_AUTH_INTERNAL_H */
