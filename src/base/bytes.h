/* base/bytes.h - fixed-width integers in byte strings, hex, and small text checks. Thread: any. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed run of bytes; not NUL-terminated. */
struct str {
	const char *p;
	size_t len;
};

#define STR_LIT(s) ((struct str){ (s), sizeof(s) - 1 })
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).len, (s).p

static inline struct str str_of(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}
static inline bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}
static inline bool str_is(struct str a, const char *z)
{
	return str_eq(a, str_of(z));
}
static inline bool str_is_among(struct str s, const struct str *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(all[i], s))
			return true;
	}
	return false;
}
int str_cmp(struct str a, struct str b); /* byte order, shorter first */
bool str_starts(struct str s, struct str prefix);

static inline void put_le16(void *p, uint16_t v)
{
	uint8_t *b = p;
	b[0] = (uint8_t)v;
	b[1] = (uint8_t)(v >> 8);
}
static inline void put_le32(void *p, uint32_t v)
{
	put_le16(p, (uint16_t)v);
	put_le16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}
static inline void put_le64(void *p, uint64_t v)
{
	put_le32(p, (uint32_t)v);
	put_le32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t get_le16(const void *p)
{
	const uint8_t *b = p;
	return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t get_le32(const void *p)
{
	return get_le16(p) | (uint32_t)get_le16((const uint8_t *)p + 2) << 16;
}
static inline uint64_t get_le64(const void *p)
{
	return get_le32(p) | (uint64_t)get_le32((const uint8_t *)p + 4) << 32;
}
static inline void put_be16(void *p, uint16_t v)
{
	uint8_t *b = p;
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}
static inline uint16_t get_be16(const void *p)
{
	const uint8_t *b = p;
	return (uint16_t)(b[0] << 8 | b[1]);
}
void put_be64(void *p, uint64_t v);
uint64_t get_be64(const void *p);

int hex_digit(char c); /* 0..15 for a digit of either case, -1 for anything else */
/* Lower-case hex of a 64-bit number, 16 digits and a NUL. */
#define HEX64_SIZE 17
void hex64(char out[HEX64_SIZE], uint64_t v);
bool hex64_parse(struct str s, uint64_t *out); /* exactly 16 lower-case hex digits */

/* Decimal, no sign, no leading zero but "0" itself; false on anything else or overflow. */
bool u64_parse(struct str s, uint64_t *out);
bool i64_parse(struct str s, int64_t *out); /* one leading '-' allowed */

bool utf8_valid(const void *bytes, size_t len); /* strict: no surrogates, no overlong forms, up to U+10FFFF */

#endif /* BASE_BYTES_H */
