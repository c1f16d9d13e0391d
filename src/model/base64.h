/* model/base64.h - standard base64 with padding, the spelling of bytes in JSON records.
 *
 * Decoding is strict: no line ends, no missing or extra padding, unused bits zero, so that a value has one spelling.
 * Thread: any.   Source: RFC 4648, section 4.
 */
#ifndef MODEL_BASE64_H
#define MODEL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

/* Characters that `n` bytes become. */
static inline size_t base64_size(size_t n)
{
	return (n + 2) / 3 * 4;
}

void base64_encode(char *out, struct str bytes); /* writes base64_size(bytes.len) characters, no NUL */

/* `out` holds at least text.len / 4 * 3 bytes; *out_len is how many were written. False: not strict base64. */
bool base64_decode(void *out, size_t *out_len, struct str text);

#endif /* MODEL_BASE64_H */
