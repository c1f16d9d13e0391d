#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t c = crc;
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		c = _mm_crc32_u64(c, word);
	}
	for (; len; p++, len--)
		c = _mm_crc32_u8((uint32_t)c, *p);
	return (uint32_t)c;
}

static bool has_hardware(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t crc_hardware(uint32_t crc, const uint8_t *p, size_t len)
{
	(void)p;
	(void)len;
	return crc;
}

static bool has_hardware(void)
{
	return false;
}
#endif

/* Four bits at a time: 64 bytes of table, made at compile time. Polynomial 0x1EDC6F41, bit-reversed 0x82F63B78. */
#define STEP(x) ((x) >> 1 ^ ((x)&1 ? 0x82F63B78u : 0u))
#define NIBBLE(x) STEP(STEP(STEP(STEP((uint32_t)(x)))))
static const uint32_t nibble_table[16] = {
	NIBBLE(0), NIBBLE(1), NIBBLE(2),  NIBBLE(3),  NIBBLE(4),  NIBBLE(5),  NIBBLE(6),  NIBBLE(7),
	NIBBLE(8), NIBBLE(9), NIBBLE(10), NIBBLE(11), NIBBLE(12), NIBBLE(13), NIBBLE(14), NIBBLE(15),
};

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t len)
{
	for (; len; p++, len--) {
		crc ^= *p;
		crc = crc >> 4 ^ nibble_table[crc & 15];
		crc = crc >> 4 ^ nibble_table[crc & 15];
	}
	return crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	if (len == 0)
		return crc;
	return ~(has_hardware() ? crc_hardware(~crc, p, len) : crc_portable(~crc, p, len));
}
