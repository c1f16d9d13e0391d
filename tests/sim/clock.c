/* Virtual time and chance, linked instead of base/clock.c, base/rand_secure.c and store/bootid.c. */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "sim.h"
#include "store/mark.h"

#define WALL_START_MS 1700000000000u
#define MONO_START_MS 100000u

uint64_t clock_mono_ms(void)
{
	return MONO_START_MS + w.now_us / 1000;
}

uint64_t clock_mono_ns(void)
{
	return (MONO_START_MS * 1000 + w.now_us) * 1000;
}

uint64_t clock_wall_ms(void)
{
	const int64_t skew = w.current >= 0 ? w.nodes[w.current].wall_skew_ms : 0;
	return (uint64_t)((int64_t)(WALL_START_MS + w.now_us / 1000) + skew);
}

void rand_secure(void *out, size_t n)
{
	uint8_t *p = out;
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rand_u64(&w.rand);
}

/* A new one after each power cut: what the kernel held is gone with it. */
bool store_read_boot_id(char out[STORE_BOOT_ID_SIZE])
{
	const struct sim_node *n = w.current >= 0 ? &w.nodes[w.current] : NULL;
	snprintf(out, STORE_BOOT_ID_SIZE, "%08x-0000-4000-8000-%012llx", n ? (unsigned)n->number : 0u,
	         n ? (unsigned long long)n->boots : 0ull);
	return true;
}
