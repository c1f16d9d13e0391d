#include "base/bytes.h"

int str_cmp(struct str a, struct str b)
{
	const size_t n = a.len < b.len ? a.len : b.len;
	const int c = n ? memcmp(a.p, b.p, n) : 0;
	if (c)
		return c;
	return a.len < b.len ? -1 : a.len > b.len;
}

bool str_starts(struct str s, struct str prefix)
{
	return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.p, prefix.p, prefix.len) == 0);
}

void put_be64(void *p, uint64_t v)
{
	uint8_t *b = p;
	for (int i = 7; i >= 0; i--, v >>= 8)
		b[i] = (uint8_t)v;
}

uint64_t get_be64(const void *p)
{
	const uint8_t *b = p;
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | b[i];
	return v;
}

int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

void hex64(char out[HEX64_SIZE], uint64_t v)
{
	static const char digits[] = "0123456789abcdef";
	for (int i = 15; i >= 0; i--, v >>= 4)
		out[i] = digits[v & 15];
	out[16] = '\0';
}

bool hex64_parse(struct str s, uint64_t *out)
{
	if (s.len != 16)
		return false;
	uint64_t v = 0;
	for (size_t i = 0; i < 16; i++) {
		const int d = hex_digit(s.p[i]);
		if (d < 0 || (s.p[i] >= 'A' && s.p[i] <= 'F'))
			return false;
		v = v << 4 | (uint64_t)d;
	}
	*out = v;
	return true;
}

bool u64_parse(struct str s, uint64_t *out)
{
	if (s.len == 0 || s.len > 20 || (s.p[0] == '0' && s.len > 1))
		return false;
	uint64_t v = 0;
	for (size_t i = 0; i < s.len; i++) {
		const char c = s.p[i];
		if (c < '0' || c > '9')
			return false;
		const uint64_t digit = (uint64_t)(c - '0');
		if (v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return true;
}

bool i64_parse(struct str s, int64_t *out)
{
	const bool negative = s.len > 0 && s.p[0] == '-';
	if (negative) {
		s.p++;
		s.len--;
	}
	uint64_t v;
	if (!u64_parse(s, &v) || v > (uint64_t)INT64_MAX + negative || (negative && v == 0))
		return false;
	*out = negative ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

/* The table of well-formed sequences in the Unicode standard (3-7), as lead byte ranges with bounds on the second byte.
 */
bool utf8_valid(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	const uint8_t *end = p + len;
	while (p < end) {
		const uint8_t c = *p++;
		if (c < 0x80)
			continue;
		size_t more;
		uint8_t lo = 0x80;
		uint8_t hi = 0xbf;
		if (c >= 0xc2 && c <= 0xdf) {
			more = 1;
		} else if (c >= 0xe0 && c <= 0xef) {
			more = 2;
			if (c == 0xe0)
				lo = 0xa0;
			else if (c == 0xed)
				hi = 0x9f;
		} else if (c >= 0xf0 && c <= 0xf4) {
			more = 3;
			if (c == 0xf0)
				lo = 0x90;
			else if (c == 0xf4)
				hi = 0x8f;
		} else {
			return false;
		}
		if ((size_t)(end - p) < more || *p < lo || *p > hi)
			return false;
		for (size_t i = 1; i < more; i++) {
			if (p[i] < 0x80 || p[i] > 0xbf)
				return false;
		}
		p += more;
	}
	return true;
}
