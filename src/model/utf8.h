/* model/utf8.h - one UTF-8 sequence at a time. Thread: any. */
#ifndef MODEL_UTF8_H
#define MODEL_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

/* Length of the well-formed sequence that begins at `p` with a byte of 0x80 or more; 0: there is none. A lead byte
 * fixes the length, so asking utf8_valid about exactly that many bytes asks about one sequence. */
static inline size_t utf8_sequence(const uint8_t *p, size_t left)
{
	const size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
	return n <= left && utf8_valid(p, n) ? n : 0;
}

/* U+2028 and U+2029, which Go escapes since JavaScript takes them for line ends. */
static inline int utf8_is_line_separator(const uint8_t *p, size_t n)
{
	return n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8;
}

/* Copies as many whole characters as fit into `out` (cap >= 1 bytes, NUL-terminated) for a message: control bytes
 * become
 * '?', and it ends before the first byte that is not UTF-8. Returns the length. */
static inline size_t utf8_copy_clean(char *out, size_t cap, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;
	size_t i = 0;
	while (i < s.len) {
		const size_t n = p[i] < 0x80 ? 1 : utf8_sequence(p + i, s.len - i);
		if (n == 0 || i + n >= cap)
			break;
		memcpy(out + i, p + i, n);
		if (p[i] < 0x20 || p[i] == 0x7f)
			out[i] = '?';
		i += n;
	}
	out[i] = '\0';
	return i;
}

#endif /* MODEL_UTF8_H */
