#include "http/query.h"

#include <string.h>

static bool needs_decoding(struct str in, bool plus_is_blank)
{
	return in.len > 0 && (memchr(in.p, '%', in.len) || (plus_is_blank && memchr(in.p, '+', in.len)));
}

bool http_decode(struct str in, bool plus_is_blank, struct arena *a, struct str *out)
{
	if (!needs_decoding(in, plus_is_blank)) {
		*out = in;
		return utf8_valid(in.p, in.len);
	}

	char *text = arena_alloc(a, in.len);
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		char c = in.p[i];

		if (c == '%') {
			int hi = in.len - i > 2 ? hex_digit(in.p[i + 1]) : -1;
			int lo = in.len - i > 2 ? hex_digit(in.p[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return false;
			c = (char)(hi << 4 | lo);
			if (c == '\0')
				return false;
			i += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		text[n++] = c;
	}
	*out = (struct str){ text, n };
	return utf8_valid(text, n);
}

static bool is_known(const struct http_param *params, size_t count, struct str key)
{
	for (size_t i = 0; i < count; i++) {
		if (str_eq(params[i].key, key))
			return true;
	}
	return false;
}

enum http_query_fault http_query_parse(struct str query, struct arena *a, struct http_param *out, size_t *count,
                                       struct str *bad)
{
	size_t n = 0;

	*count = 0;
	while (query.len > 0) {
		const char *amp = memchr(query.p, '&', query.len);
		struct str part = { query.p, amp ? (size_t)(amp - query.p) : query.len };
		const char *eq = part.len ? memchr(part.p, '=', part.len) : NULL;
		struct str key = { part.p, eq ? (size_t)(eq - part.p) : part.len };
		struct str value = eq ? (struct str){ eq + 1, part.len - key.len - 1 } : (struct str){ "", 0 };

		query.p += part.len + (amp ? 1 : 0);
		query.len -= part.len + (amp ? 1 : 0);
		if (part.len == 0)
			continue;
		*bad = key;
		if (key.len == 0)
			return HTTP_QUERY_NAMELESS;
		if (n == HTTP_PARAMS_MAX)
			return HTTP_QUERY_TOO_MANY;
		if (!http_decode(key, true, a, &out[n].key))
			return HTTP_QUERY_ENCODING;
		*bad = out[n].key;
		if (is_known(out, n, out[n].key))
			return HTTP_QUERY_TWICE;
		if (!http_decode(value, true, a, &out[n].value))
			return HTTP_QUERY_ENCODING;
		n++;
	}
	*count = n;
	return HTTP_QUERY_FINE;
}
