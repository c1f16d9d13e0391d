#include "base/rand.h"

#include <assert.h>

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void rand_seed(struct rand *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&seed);
}

/* Blackman and Vigna's xoshiro256**. */
uint64_t rand_u64(struct rand *r)
{
	uint64_t *s = r->s;
	const uint64_t result = rotl(s[1] * 5, 7) * 9;
	const uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t rand_below(struct rand *r, uint64_t n)
{
	assert(n > 0);
	/* Numbers under 2^64 mod n would make the low results more likely: draw again. */
	const uint64_t threshold = (0 - n) % n;
	uint64_t v;
	do {
		v = rand_u64(r);
	} while (v < threshold);
	return v % n;
}
