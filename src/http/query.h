/* http/query.h - percent-decoding and query parameters, strictly.
 *
 * A '%' without two hex digits, a NUL, and bytes that are not UTF-8 are refused; a '+' in a query is a blank.
 * Ownership: decoded text lies in the input where nothing had to be decoded, else in the arena.   Thread: any.
 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/bytes.h"

#define HTTP_PARAMS_MAX 16

struct http_param {
	struct str key, value; /* decoded; a parameter without '=' has an empty value */
};

bool http_decode(struct str in, bool plus_is_blank, struct arena *a, struct str *out);

enum http_query_fault {
	HTTP_QUERY_FINE,
	HTTP_QUERY_ENCODING, /* key or value is not percent-encoded UTF-8 */
	HTTP_QUERY_NAMELESS, /* a value without a key */
	HTTP_QUERY_TWICE,    /* a key stands again */
	HTTP_QUERY_TOO_MANY, /* more than HTTP_PARAMS_MAX */
};

/* Splits "a=1&b=2". Of a query that is not fine `bad` gets the key to blame (maybe empty), and `count` is 0. */
enum http_query_fault http_query_parse(struct str query, struct arena *a, struct http_param *out, size_t *count,
                                       struct str *bad);

#endif /* HTTP_QUERY_H */
