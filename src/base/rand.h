/* base/rand.h - random numbers: a seeded generator for decisions, the kernel's for identities.
 *
 * Thread: a struct rand belongs to its owner. rand_secure is for any thread; the simulator links its own.
 */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

struct rand {
	uint64_t s[4]; /* xoshiro256** state */
};

void rand_seed(struct rand *r, uint64_t seed);
uint64_t rand_u64(struct rand *r);
uint64_t rand_below(struct rand *r, uint64_t n); /* uniform in 0..n-1; n > 0 */
void rand_secure(void *out, size_t n);           /* from the kernel; aborts if it has none */

#endif /* BASE_RAND_H */
