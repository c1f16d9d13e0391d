/* base/sha512.h - SHA-512, for what the state machine must compute from stored bytes: the digest of a certificate
 * bundle that a credential is bound to.
 *
 * Here and not OpenSSL's, whose room is net/ and service/: fsm/ is linked into tools and specs that need no more of it
 * than this. Nothing secret passes through it; what is keyed is OpenSSL's.
 * Thread: any; a struct belongs to its caller.   Source: FIPS 180-4, section 6.4.
 */
#ifndef BASE_SHA512_H
#define BASE_SHA512_H

#include <stddef.h>
#include <stdint.h>

#define SHA512_SIZE 64
#define SHA512_BLOCK 128

struct sha512 {
	uint64_t h[8];
	uint64_t len; /* bytes so far */
	uint8_t block[SHA512_BLOCK];
};

void sha512_init(struct sha512 *s);
void sha512_add(struct sha512 *s, const void *bytes, size_t len);
void sha512_end(struct sha512 *s, uint8_t out[SHA512_SIZE]); /* the struct is used up */

#endif /* BASE_SHA512_H */
