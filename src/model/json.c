/* The pull parser. One bit per open container and what may come next are all of its state, so that a hostile text can
 * neither recurse nor allocate.
 *
 *   after '{'   : a key or '}'          KEY_OR_END
 *   after ','   : in an object a key    KEY;      in an array a value   VALUE
 *   after a key : its value             VALUE     (the ':' is taken together with the key)
 *   after '['   : a value or ']'        VALUE_OR_END
 *   after a value: ',' or the container's end     AFTER;  at depth 0 nothing more   DONE
 */
#include "model/json.h"

#include <assert.h>
#include <string.h>

#include "model/utf8.h"

enum expect { VALUE, VALUE_OR_END, KEY, KEY_OR_END, AFTER, DONE, FAILED };

void json_reader_init(struct json_reader *r, struct str text, size_t depth_max)
{
	assert(depth_max <= JSON_DEPTH_MAX);
	*r = (struct json_reader){ .bytes = (const uint8_t *)text.p,
		                   .len = text.len,
		                   .expect = VALUE,
		                   .depth_max = (uint16_t)(depth_max ? depth_max : JSON_DEPTH_DEFAULT) };
}

static enum json_event fail(struct json_reader *r, size_t pos, const char *why)
{
	r->expect = FAILED;
	r->error = why;
	r->error_pos = pos;
	return JSON_ERROR;
}

static bool in_object(const struct json_reader *r)
{
	const size_t d = (size_t)r->depth - 1;
	return r->is_object[d / 64] >> (d % 64) & 1;
}

static void skip_space(struct json_reader *r)
{
	while (r->pos < r->len) {
		const uint8_t c = r->bytes[r->pos];
		if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
			return;
		r->pos++;
	}
}

static void value_done(struct json_reader *r)
{
	r->expect = r->depth ? AFTER : DONE;
}

static enum json_event open_container(struct json_reader *r, bool object)
{
	if (r->depth == r->depth_max)
		return fail(r, r->pos, "nested too deeply");
	const uint64_t bit = 1ull << (r->depth % 64);
	if (object)
		r->is_object[r->depth / 64] |= bit;
	else
		r->is_object[r->depth / 64] &= ~bit;
	r->depth++;
	r->token_pos = r->pos++;
	r->expect = object ? KEY_OR_END : VALUE_OR_END;
	return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_event close_container(struct json_reader *r)
{
	const bool object = in_object(r);
	r->token_pos = r->pos++;
	r->depth--;
	value_done(r);
	return object ? JSON_OBJECT_END : JSON_ARRAY_END;
}

/* The number behind "\u", or -1. */
static int32_t hex4(const uint8_t *p, size_t left)
{
	if (left < 4)
		return -1;
	int32_t v = 0;
	for (size_t i = 0; i < 4; i++) {
		const int d = hex_digit((char)p[i]);
		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* One escape, r->pos at its backslash. False: failed. */
static bool scan_escape(struct json_reader *r)
{
	const size_t start = r->pos;
	const uint8_t *p = r->bytes + start;
	const size_t left = r->len - start;
	if (left < 2)
		return fail(r, start, "the string does not end"), false;
	if (p[1] != 'u') {
		if (!memchr("\"\\/bfnrt", p[1], 8))
			return fail(r, start, "no such escape"), false;
		r->pos += 2;
		return true;
	}
	const int32_t unit = hex4(p + 2, left - 2);
	if (unit < 0)
		return fail(r, start, "\\u needs four hex digits"), false;
	if (unit == 0 && r->refuse_nul)
		return fail(r, start, "\\u0000 is not allowed"), false;
	r->pos += 6;
	if (unit < 0xd800 || unit > 0xdfff)
		return true;
	const int32_t low = unit < 0xdc00 && left >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, left - 8) : -1;
	if (low < 0xdc00 || low > 0xdfff)
		return fail(r, start, "a surrogate escape without its other half"), false;
	r->pos += 6;
	return true;
}

/* A string, r->pos at its opening quote: sets the token and moves behind the closing quote. False: failed. */
static bool scan_string(struct json_reader *r)
{
	r->token_pos = r->pos++;
	r->escaped = false;
	while (r->pos < r->len) {
		const uint8_t c = r->bytes[r->pos];
		if (c == '"') {
			const size_t start = r->token_pos + 1;
			r->token = (struct str){ (const char *)r->bytes + start, r->pos - start };
			r->pos++;
			return true;
		}
		if (c < 0x20)
			return fail(r, r->pos, "a control byte inside a string"), false;
		if (c == '\\') {
			r->escaped = true;
			if (!scan_escape(r))
				return false;
			continue;
		}
		const size_t n = c < 0x80 ? 1 : utf8_sequence(r->bytes + r->pos, r->len - r->pos);
		if (n == 0)
			return fail(r, r->pos, "invalid UTF-8"), false;
		r->pos += n;
	}
	return fail(r, r->token_pos, "the string does not end"), false;
}

/* Moves over digits; how many. */
static size_t scan_digits(struct json_reader *r)
{
	const size_t start = r->pos;
	while (r->pos < r->len && r->bytes[r->pos] >= '0' && r->bytes[r->pos] <= '9')
		r->pos++;
	return r->pos - start;
}

static bool next_is(const struct json_reader *r, char a, char b)
{
	return r->pos < r->len && (r->bytes[r->pos] == a || r->bytes[r->pos] == b);
}

static enum json_event scan_number(struct json_reader *r)
{
	r->token_pos = r->pos;
	if (next_is(r, '-', '-'))
		r->pos++;
	const size_t first = r->pos;
	const size_t digits = scan_digits(r);
	if (digits == 0)
		return fail(r, r->pos, "a number needs a digit here");
	if (digits > 1 && r->bytes[first] == '0')
		return fail(r, first, "a number must not begin with 0");
	if (next_is(r, '.', '.')) {
		r->pos++;
		if (scan_digits(r) == 0)
			return fail(r, r->pos, "a fraction needs a digit");
	}
	if (next_is(r, 'e', 'E')) {
		r->pos++;
		if (next_is(r, '+', '-'))
			r->pos++;
		if (scan_digits(r) == 0)
			return fail(r, r->pos, "an exponent needs a digit");
	}
	r->token = (struct str){ (const char *)r->bytes + r->token_pos, r->pos - r->token_pos };
	r->escaped = false;
	value_done(r);
	return JSON_NUMBER;
}

static enum json_event scan_literal(struct json_reader *r, const char *word, enum json_event event)
{
	const size_t n = strlen(word);
	if (r->len - r->pos < n || memcmp(r->bytes + r->pos, word, n) != 0)
		return fail(r, r->pos, "not a JSON value");
	r->token_pos = r->pos;
	r->pos += n;
	value_done(r);
	return event;
}

static enum json_event scan_value(struct json_reader *r)
{
	switch (r->bytes[r->pos]) {
	case '{': return open_container(r, true);
	case '[': return open_container(r, false);
	case '"':
		if (!scan_string(r))
			return JSON_ERROR;
		value_done(r);
		return JSON_STRING;
	case 't': return scan_literal(r, "true", JSON_TRUE);
	case 'f': return scan_literal(r, "false", JSON_FALSE);
	case 'n': return scan_literal(r, "null", JSON_NULL);
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9': return scan_number(r);
	default: return fail(r, r->pos, "not a JSON value");
	}
}

static enum json_event scan_key(struct json_reader *r)
{
	if (r->bytes[r->pos] != '"')
		return fail(r, r->pos, "expected a key in double quotes");
	if (!scan_string(r))
		return JSON_ERROR;
	skip_space(r);
	if (!next_is(r, ':', ':'))
		return fail(r, r->pos, "expected ':' behind the key");
	r->pos++;
	r->expect = VALUE;
	return JSON_KEY;
}

/* Behind a value inside a container: takes the comma and goes on, or ends the container. */
static enum json_event scan_after(struct json_reader *r)
{
	const bool object = in_object(r);
	const uint8_t c = r->bytes[r->pos];
	if (c == (object ? '}' : ']'))
		return close_container(r);
	if (c != ',')
		return fail(r, r->pos, object ? "expected ',' or '}'" : "expected ',' or ']'");
	r->pos++;
	skip_space(r);
	if (r->pos == r->len)
		return fail(r, r->pos, "the text ends too early");
	return object ? scan_key(r) : scan_value(r);
}

enum json_event json_next(struct json_reader *r)
{
	if (r->expect == FAILED)
		return JSON_ERROR;
	skip_space(r);
	if (r->expect == DONE)
		return r->pos == r->len ? JSON_END : fail(r, r->pos, "something follows the value");
	if (r->pos == r->len)
		return fail(r, r->pos, r->depth || r->pos ? "the text ends too early" : "the text is empty");
	switch ((enum expect)r->expect) {
	case VALUE_OR_END:
		if (r->bytes[r->pos] == ']')
			return close_container(r);
		return scan_value(r);
	case VALUE: return scan_value(r);
	case KEY_OR_END:
		if (r->bytes[r->pos] == '}')
			return close_container(r);
		return scan_key(r);
	case KEY: return scan_key(r);
	case AFTER: return scan_after(r);
	case DONE:
	case FAILED: break;
	}
	assert(!"json reader state");
	return JSON_ERROR;
}

bool json_skip(struct json_reader *r, enum json_event first)
{
	if (first == JSON_ERROR)
		return false;
	if (first != JSON_OBJECT && first != JSON_ARRAY)
		return true;
	const unsigned outer = r->depth - 1u;
	while (r->depth > outer) {
		if (json_next(r) == JSON_ERROR)
			return false;
	}
	return true;
}

static char *put_utf8(char *o, uint32_t c)
{
	if (c < 0x80) {
		*o++ = (char)c;
	} else if (c < 0x800) {
		*o++ = (char)(0xc0 | c >> 6);
		*o++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*o++ = (char)(0xe0 | c >> 12);
		*o++ = (char)(0x80 | (c >> 6 & 0x3f));
		*o++ = (char)(0x80 | (c & 0x3f));
	} else {
		*o++ = (char)(0xf0 | c >> 18);
		*o++ = (char)(0x80 | (c >> 12 & 0x3f));
		*o++ = (char)(0x80 | (c >> 6 & 0x3f));
		*o++ = (char)(0x80 | (c & 0x3f));
	}
	return o;
}

/* Each escape is longer than the bytes it stands for, so the output never overtakes the token's length. */
size_t json_unescape(char *out, struct str token)
{
	static const char letters[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";
	const char *p = token.p;
	const char *end = p + token.len;
	char *o = out;
	while (p < end) {
		if (*p != '\\') {
			*o++ = *p++;
			continue;
		}
		assert(end - p >= 2);
		if (p[1] != 'u') {
			const char *letter = memchr(letters, p[1], sizeof(letters) - 1);
			*o++ = letter ? meanings[letter - letters] : p[1];
			p += 2;
			continue;
		}
		int32_t c = hex4((const uint8_t *)p + 2, (size_t)(end - p) - 2);
		assert(c >= 0);
		p += 6;
		if (c >= 0xd800 && c <= 0xdbff) {
			assert(end - p >= 6);
			c = 0x10000 + ((c - 0xd800) << 10) + (hex4((const uint8_t *)p + 2, 4) - 0xdc00);
			p += 6;
		}
		o = put_utf8(o, (uint32_t)c);
	}
	return (size_t)(o - out);
}

struct str json_token_str(const struct json_reader *r, struct arena *a)
{
	if (!r->escaped)
		return r->token;
	char *p = arena_alloc(a, r->token.len);
	return (struct str){ p, json_unescape(p, r->token) };
}

bool json_number_i64(struct str token, int64_t *out)
{
	if (str_is(token, "-0")) {
		*out = 0;
		return true;
	}
	return i64_parse(token, out);
}

bool json_number_u64(struct str token, uint64_t *out)
{
	if (str_is(token, "-0")) {
		*out = 0;
		return true;
	}
	return u64_parse(token, out);
}
