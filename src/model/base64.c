#include "model/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *out, struct str bytes)
{
	const uint8_t *p = (const uint8_t *)bytes.p;
	size_t left = bytes.len;
	for (; left >= 3; left -= 3, p += 3) {
		*out++ = alphabet[p[0] >> 2];
		*out++ = alphabet[(p[0] & 3) << 4 | p[1] >> 4];
		*out++ = alphabet[(p[1] & 15) << 2 | p[2] >> 6];
		*out++ = alphabet[p[2] & 63];
	}
	if (left == 0)
		return;
	const uint8_t second = left == 2 ? p[1] : 0;
	*out++ = alphabet[p[0] >> 2];
	*out++ = alphabet[(p[0] & 3) << 4 | second >> 4];
	*out++ = left == 2 ? alphabet[(second & 15) << 2] : '=';
	*out++ = '=';
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

bool base64_decode(void *out, size_t *out_len, struct str text)
{
	if (text.len % 4)
		return false;
	size_t padding = 0;
	while (padding < 2 && padding < text.len && text.p[text.len - 1 - padding] == '=')
		padding++;
	uint8_t *o = out;
	for (size_t i = 0; i < text.len; i += 4) {
		const size_t used = i + 4 == text.len ? 4 - padding : 4;
		uint32_t group = 0;
		for (size_t k = 0; k < 4; k++) {
			const int v = k < used ? value_of(text.p[i + k]) : 0;
			if (v < 0)
				return false;
			group = group << 6 | (uint32_t)v;
		}
		/* Bits behind the last whole byte must be zero, else two texts would mean one value. */
		if ((used == 2 && group & 0xffff) || (used == 3 && group & 0xff))
			return false;
		*o++ = (uint8_t)(group >> 16);
		if (used > 2)
			*o++ = (uint8_t)(group >> 8);
		if (used > 3)
			*o++ = (uint8_t)group;
	}
	*out_len = (size_t)(o - (uint8_t *)out);
	return true;
}
